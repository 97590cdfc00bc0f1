// The self-similar parts of a model: layers that are built alike and differ in a number only. Their tensors are added
// up (Smaragdine 3.3: o(q) and the summarised footprint).
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace flyball {

class SelfSimilar {
 public:
  // Recognises layer_3 and Layer_3 (TensorFlow, Keras, PyTorch's numbered modules), layers.3 and layers/3 (Megatron,
  // LLaMA), h.11 (GPT-2), encoder.layer.7 (BERT of Hugging Face), blocks.3, block_3, stages.2.
  SelfSimilar();
  // An ECMAScript pattern. In every match, each run of digits becomes "*". Throws UsageError where it is none.
  explicit SelfSimilar(const std::string& pattern);
  ~SelfSimilar();
  SelfSimilar(SelfSimilar&&) noexcept;
  SelfSimilar& operator=(SelfSimilar&&) noexcept;

  // Turns "bert/encoder/layer_0/output/dense/MatMul" into "bert/encoder/layer_*/output/dense/MatMul". Names of more
  // than 2,000 bytes are left as they are.
  [[nodiscard]] std::string summarised(std::string_view name) const;

 private:
  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace flyball
