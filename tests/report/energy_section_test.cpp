// The data that the flame graph and the diagrams of an account are drawn from, and what scripts ask of it.
#include "report/energy_section.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "report/footprint_report.h"
#include "report/page_scripts.h"
#include "support/energy_model.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using testing::Model;

std::vector<std::string> names_in(const nlohmann::json& data) {
  std::vector<std::string> names;
  for (const nlohmann::json& word : data.at("names")) names.push_back(data.at("words").at(word.get<std::size_t>()));
  return names;
}

//  m ---- big ---- MatMul  8 forward, 4 backward
//   \         \--- (self)  1 forward
//    \--- small -- MatMul  0.3 forward
TEST(EnergySection, PartsGoDepthFirstAndTheLargestFirst) {
  Model model;
  const OperationId small = model.add("m/small/MatMul", 0.3);
  model.add("m/big", 1);
  const OperationId big = model.add("m/big/MatMul", 8);
  model.add("m/big/MatMul", 4, Phase::kBackward);
  model.operations.add_edge(small, big);
  const nlohmann::json data = testing::script_data(energy_section(model.tree()));
  EXPECT_EQ(names_in(data), (std::vector<std::string>{"", "m", "big", "MatMul", "(self)", "small", "MatMul"}));
  EXPECT_EQ(data.at("words").size(), 6u);  // MatMul stands once
  EXPECT_EQ(data.at("depths"), nlohmann::json({0, 1, 2, 3, 3, 2, 3}));
  // Of the three parts that hold no other, in that order: unknown, forward, backward, optimizer.
  EXPECT_EQ(data.at("joules"), nlohmann::json::parse("[[0, 0, 0], [8, 1, 0.3], [4, 0, 0], [0, 0, 0]]"));
  // From small, the sixth part, three back to big, in the forward pass (bit 1): dataflow. In big, MatMul comes before
  // nothing, since what a part takes by itself has no arrows.
  EXPECT_EQ(data.at("edges"), nlohmann::json({5, -3, 2}));
  // big waits for small, so that it is drawn a row further down.
  EXPECT_EQ(data.at("ranks"), nlohmann::json({0, 0, 1, 0, 0, 0, 0}));
}

// Without known dataflow a chain joins the parts in all phases (bits 0 to 3, which is 15), as an order (16).
TEST(EnergySection, AnOrderIsNoDataflow) {
  Model model;
  model.add("first", 2);
  model.add("second", 1);
  EXPECT_EQ(testing::script_data(energy_section(model.tree())).at("edges"), nlohmann::json({1, 1, 31}));
}

// 1/3 takes 17 digits as it is, and 5 are written; 123456.7 has six before its point, of which the last is rounded.
// What is no energy is none.
TEST(EnergySection, JoulesHaveFiveDigits) {
  Model model;
  model.add("a", 123456.7);
  model.add("b", 1.0 / 3.0);
  model.add("c", 2.0e-9 / 3.0);
  model.add("d", -1);
  EXPECT_THAT(energy_section(model.tree()), HasSubstr("[123460.0,0.33333,6.6667e-10,0]"));
}

TEST(EnergySection, ScriptsFindWhatTheyAskFor) {
  Model model;
  model.add("m/a", 1);
  const std::string section = energy_section(model.tree());
  for (const std::string_view script : {"energy_parts.js", "energy_flame.js", "energy_diagram.js"}) {
    testing::expect_parts(script, section);
  }
  EXPECT_EQ(testing::members_read("energy_parts.js", "data"), testing::keys_of(testing::script_data(section)));
}

TEST(EnergySection, AnEmptyModelIsOnePart) {
  const nlohmann::json data = testing::script_data(energy_section(Model().tree()));
  EXPECT_EQ(data.at("depths"), nlohmann::json::parse("[0]"));
  EXPECT_EQ(data.at("joules"), nlohmann::json::parse("[[0], [0], [0], [0]]"));
}

// Names that would end the script, that are long, that turn the direction of what follows, and that are no UTF-8: all
// of them are read back as they were, except for the bytes that are no character.
TEST(EnergySection, HostileNamesStayNames) {
  const std::string script = "<|script><script>alert(1)<|script>";
  const std::string markup = "<!--<img src=x onerror=alert(2)>";
  const std::string turned = "\u202e\u0645\u0647\u0645\u0629";
  const std::string lengthy(10'000, 'x');
  Model model;
  model.add(script, 5);
  model.add(markup, 4);
  model.add(turned, 3);
  model.add(lengthy, 2);
  model.add("\xff", 1);
  const EnergyTree tree = model.tree();
  const std::string section = energy_section(tree);
  EXPECT_EQ(section.find("</script>"), section.rfind("</script>"));
  EXPECT_THAT(section, Not(HasSubstr("<img")));
  EXPECT_THAT(section, Not(HasSubstr("<!--")));
  EXPECT_THAT(section, HasSubstr("\\u202e"));
  EXPECT_EQ(names_in(testing::script_data(section)),
            (std::vector<std::string>{"", script, markup, turned, lengthy, "\ufffd"}));
  FootprintPage page;
  page.footprint = &model.footprint;
  page.tree = &tree;
  EXPECT_THAT(footprint_html(page), Not(HasSubstr("<img")));
}

// A name with a closing tag in it has a slash, and is thus two parts.
TEST(EnergySection, AClosingTagIsTwoParts) {
  Model model;
  model.add("<script></script>", 1);
  const std::string section = energy_section(model.tree());
  EXPECT_EQ(section.find("</script>"), section.rfind("</script>"));
  EXPECT_EQ(names_in(testing::script_data(section)), (std::vector<std::string>{"", "<script><", "script>"}));
}

// 96 layers of GPT-3, each with 102 parts: itself, its attention and feed-forward (2), three small ones, and 8 modules
// of 9 operators and a backward function that holds one (12 each, with itself): 1 + 2 + 3 + 96. With the model and the
// three parts around the layers that is 9,796. The operators follow each other in order.
TEST(EnergySection, AModelOfTenThousandPartsFitsIn500Kilobytes) {
  Model model;
  const std::vector<std::string> modules = {
      "attention/query_key_value", "attention/core_attention", "attention/dense",   "attention/dropout",
      "mlp/dense_h_to_4h",         "mlp/activation",           "mlp/dense_4h_to_h", "mlp/dropout"};
  const std::vector<std::string> operators = {"aten::linear", "aten::addmm", "aten::view",     "aten::transpose",
                                              "aten::bmm",    "aten::add",   "aten::_softmax", "aten::native_dropout",
                                              "aten::gelu"};
  std::vector<OperationId> order;
  double joules = 1000;
  for (int layer = 0; layer < 96; ++layer) {
    const std::string path = fmt::format("gpt3/transformer/layers/{}/", layer);
    for (const char* norm : {"input_layernorm", "post_attention_layernorm", "residual"}) {
      order.push_back(model.add(path + norm, joules *= 0.9997));
    }
    for (const std::string& module : modules) {
      for (const std::string& name : operators) {
        order.push_back(model.add(fmt::format("{}{}/{}", path, module, name), joules *= 0.9997));
      }
      model.add(fmt::format("{}{}/AddmmBackward0/aten::mm", path, module), joules, Phase::kBackward);
    }
  }
  for (std::size_t i = 1; i < order.size(); ++i) model.operations.add_edge(order[i - 1], order[i], EdgeKind::kOrder);
  const EnergyTree tree = model.tree();
  ASSERT_EQ(tree.nodes.size(), 9'796u);
  FootprintPage page;
  page.title = "Energy account: trace.json";
  page.footprint = page.summary = &model.footprint;
  page.tree = &tree;
  const std::string html = footprint_html(page);
  EXPECT_LT(html.size(), 500'000u);
  RecordProperty("bytes", static_cast<int>(html.size()));
}

}  // namespace
}  // namespace flyball
