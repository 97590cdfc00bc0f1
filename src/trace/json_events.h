// Reads the entries of a Chrome trace's list, one after the other, from a stream of bytes.
//
// Memory: some three megabytes, or six times the longest entry if that is more, whatever the length of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "trace/byte_source.h"

namespace flyball {

// The fields of an entry that the readers use. Views are valid until the next entry. If a key occurs twice, its last
// value counts.
struct JsonEvent {
  char phase = 0;
  std::string_view category;  // as it stands in the file, escapes included
  std::string_view name;
  std::string_view process;  // as it stands in the file, a number or a name
  std::string_view thread;
  // "ts" and "dur" (us) as they stand in the file, unparsed: the times of many entries are never used.
  std::string_view time;
  std::string_view duration;

  // The rest are fields of "args".
  std::string_view argument_name;
  std::string_view operation;  // "op", as it stands in the file
  std::string_view module_hierarchy;
  std::string_view hlo_op;  // an operation of XLA, in its compiled program
  std::string_view hlo_module;
  std::string_view tf_op;
  std::string_view long_name;
  bool is_step = false;  // "step_num" is there
  std::optional<std::int64_t> external_id;
  std::optional<std::int64_t> correlation;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> forward_thread;
  std::optional<std::int64_t> device;
  std::vector<std::string_view> inputs;  // "input0", ...

  // Clears field by field: assigning an empty event would give up the memory of the inputs.
  void clear() {
    phase = 0;
    for (auto* text : {&category, &name, &process, &thread, &time, &duration, &argument_name, &operation,
                       &module_hierarchy, &hlo_op, &hlo_module, &tf_op, &long_name}) {
      *text = {};
    }
    is_step = false;
    for (auto* number : {&external_id, &correlation, &sequence, &forward_thread, &device}) number->reset();
    inputs.clear();
  }
};

// Not thread-safe.
class JsonEventReader {
 public:
  explicit JsonEventReader(ByteSource& bytes);  // `bytes` must outlive the reader
  ~JsonEventReader();
  JsonEventReader(const JsonEventReader&) = delete;
  JsonEventReader& operator=(const JsonEventReader&) = delete;

  // The beginning of the file, and whether one of PyTorch's own keys comes before the list. Both tell formats apart.
  [[nodiscard]] std::string_view beginning() const { return {buffer_.data(), end_}; }
  [[nodiscard]] bool has_pytorch_header() const { return pytorch_header_; }

  // Calls `take` for every entry and `progress`, with the share of the file that is read, now and then. Throws
  // InputError where the text is no such list.
  void read(const std::function<void(const JsonEvent&)>& take, const std::function<void(double)>& progress);

  // The next eight are known after read().
  [[nodiscard]] Nanoseconds base_time() const { return base_time_; }  // "baseTimeNanoseconds", or 0
  [[nodiscard]] long world_size() const { return world_size_; }       // of PyTorch's "distributedInfo", or 0
  [[nodiscard]] int rank() const {
    return rank_;
  }  // likewise, or -1; known from the beginning where it is before the list
  [[nodiscard]] bool truncated() const { return truncated_; }
  [[nodiscard]] std::uint64_t whole_bytes() const {
    return whole_bytes_;
  }  // the byte at which the whole entries of a truncated list end
  [[nodiscard]] std::uint64_t file_bytes() const { return offset_ + end_; }
  [[nodiscard]] std::uint64_t entries() const { return entries_; }
  [[nodiscard]] std::uint64_t not_objects() const { return not_objects_; }  // of them

 private:
  class EntryReader;

  bool fill();       // reads more bytes behind those in the buffer; false at the end of the file
  void find_list();  // sets at_ behind the opening bracket
  std::size_t read_members(std::size_t at, bool until_list);
  bool read_list(const std::function<void(const JsonEvent&)>& take);
  void read_entry(std::size_t entry_end, const std::function<void(const JsonEvent&)>& take);
  void end_list();
  void truncate();
  [[nodiscard]] std::string_view text() const { return {buffer_.data(), end_}; }
  [[noreturn]] void refuse(const std::string& problem, const std::string& mend) const;  // the error is at at_

  ByteSource& bytes_;
  std::vector<char> buffer_;  // with room for simdjson's padding behind end_
  std::size_t end_ = 0;       // end of the bytes in the buffer
  std::size_t at_ = 0;        // the bytes before this index have been read
  std::uint64_t offset_ = 0;  // position of buffer_[0] in the file
  bool at_end_ = false;       // of the file
  bool filled_ = false;       // since a list of entries was read
  bool plain_list_ = false;   // whether the document is the list itself
  std::unique_ptr<EntryReader> entry_;

  bool pytorch_header_ = false;
  Nanoseconds base_time_ = 0;
  long world_size_ = 0;
  int rank_ = -1;
  bool truncated_ = false;
  std::uint64_t whole_bytes_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t not_objects_ = 0;
};

}  // namespace flyball
