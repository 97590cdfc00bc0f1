// Walks over the fields of a message of Protocol Buffers whose schema only its reader knows.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <string_view>

namespace flyball {

// Walks over one message, which must outlive the walk. Fields of other wire types than those below are skipped. After
// the last field, `whole()` says whether the bytes were a message. Cost: linear in the number of fields.
class WireFields {
 public:
  explicit WireFields(std::string_view message);

  [[nodiscard]] bool next();
  [[nodiscard]] bool whole() const { return whole_; }

  [[nodiscard]] int field() const { return field_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }  // of a varint or of eight bytes; else 0
  [[nodiscard]] std::int64_t integer() const { return static_cast<std::int64_t>(number_); }
  [[nodiscard]] std::string_view bytes() const { return bytes_; }  // of text or a message; else empty

 private:
  google::protobuf::io::CodedInputStream in_;
  int field_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
  bool whole_ = true;
};

}  // namespace flyball
