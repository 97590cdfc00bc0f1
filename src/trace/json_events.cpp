// Blocks are read into one buffer. All entries up to the last brace in it that a comma and another brace follow are
// given to simdjson as one list. What it cannot read as such, and the block's last entry, is read entry by entry, once
// brackets and quotes that were counted have told its end.
#include "trace/json_events.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr std::size_t kLeastRoom = 1u << 18;
constexpr std::size_t kMaxEntryBytes = 64u << 20;  // of one entry, and of what comes before the list
constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kMendJson = "check that the file is a Chrome trace and was copied whole";

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

// Returns the position after the string that begins at `at`, or kNone if it does not end.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return kNone;
}

// Returns the position after the value that begins at `at`, or kNone if the text ends within it.
std::size_t skip_value(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      if (at == kNone || depth == 0) return at;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    }
    if (depth == 0 && (c == ',' || is_blank(c))) return at;
    ++at;
  }
  return kNone;
}

// Returns the position after the last brace behind the one at `at` that is followed by a comma and another brace, as an
// entry's last brace is; kNone if there is none.
std::size_t last_end(std::string_view text, std::size_t at) {
  for (std::size_t brace = text.rfind('{'); brace != kNone && brace > at; brace = text.rfind('{', brace - 1)) {
    const auto before = [text](std::size_t end) {
      while (is_blank(text[end - 1])) --end;
      return end;
    };
    const std::size_t comma = before(brace);
    if (text[comma - 1] != ',') continue;
    const std::size_t end = before(comma - 1);
    if (text[end - 1] == '}') return end;
  }
  return kNone;
}

// Replaces control characters by blanks and bytes that are not UTF-8 by '?', each by itself, whatever the text around
// it.
void mend(char* text, const char* end) {
  for (; text < end; ++text) {
    const auto byte = static_cast<unsigned char>(*text);
    if (byte < 0x20) *text = ' ';
    if (byte < 0x80) continue;
    const auto longest = std::min<std::ptrdiff_t>(4, end - text);
    std::ptrdiff_t length = 2;
    while (length <= longest && !simdjson::validate_utf8(text, static_cast<std::size_t>(length))) ++length;
    if (length <= longest) {
      text += length - 1;
    } else {
      *text = '?';
    }
  }
}

// Some writers of traces quote their numbers.
std::string_view token_text(std::string_view token) {
  while (!token.empty() && is_blank(token.back())) token.remove_suffix(1);
  return unquoted(token);
}

std::optional<std::int64_t> whole_number(std::string_view token) { return parse_integer(token_text(token)); }

// Returns a number of PyTorch's {"backend": "nccl", "rank": 0, "world_size": 3} that is at least `least`, else the one
// below that.
int distributed_number(std::string_view distributed_info, const char* name, int least) {
  simdjson::dom::parser parser;
  std::int64_t number = 0;
  const auto code = parser.parse(distributed_info.data(), distributed_info.size())[name].get(number);
  const bool good = code == simdjson::SUCCESS && number >= least && number <= 1'000'000'000;
  return good ? static_cast<int>(number) : least - 1;
}

template <std::size_t Size>
bool is_key(const char* raw, const char (&key)[Size]) {  // `raw` must be in a padded buffer
  return std::memcmp(raw, key, Size - 1) == 0 && raw[Size - 1] == '"';
}

}  // namespace

// Reads entries with simdjson, whose padding must follow the texts.
class JsonEventReader::EntryReader {
 public:
  // Returns an error unless `text` is exactly one object.
  simdjson::error_code read(std::string_view text) {
    simdjson::ondemand::document document;
    SIMDJSON_TRY(parser_.iterate(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING).get(document));
    simdjson::ondemand::object object;
    SIMDJSON_TRY(document.get_object().get(object));
    SIMDJSON_TRY(read(object));
    const char* behind = nullptr;  // where more text follows the object, if it does
    return document.current_location().get(behind) == simdjson::OUT_OF_BOUNDS ? simdjson::SUCCESS
                                                                              : simdjson::TAPE_ERROR;
  }

  // Calls `take` with each entry of a list and the position after it in `text`, up to the first that cannot be read.
  void read_list(std::string_view text, const std::function<void(std::size_t)>& take) {
    simdjson::ondemand::document document;
    simdjson::ondemand::array list;
    if (parser_.iterate(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING).get(document) ||
        document.get_array().get(list)) {
      return;
    }
    for (auto entry : list) {
      simdjson::ondemand::object object;
      const char* behind = nullptr;
      if (entry.get_object().get(object) || read(object) || document.current_location().get(behind)) return;
      take(static_cast<std::size_t>(behind - text.data()));
    }
  }

  [[nodiscard]] const JsonEvent& event() const { return event_; }

 private:
  simdjson::error_code read(simdjson::ondemand::object object) {
    event_.clear();
    for (auto result : object) {
      simdjson::ondemand::field field;
      SIMDJSON_TRY(std::move(result).get(field));
      const char* key = field.key().raw();
      const std::string_view token = field.value().raw_json_token();
      switch (key[0]) {
        case 'p':
          if (is_key(key, "ph")) event_.phase = token.size() > 1 && token[0] == '"' ? token[1] : '\0';
          if (is_key(key, "pid")) event_.process = token_text(token);
          break;
        case 't':
          if (is_key(key, "ts")) event_.time = token;
          if (is_key(key, "tid")) event_.thread = token_text(token);
          break;
        case 'd':
          if (is_key(key, "dur")) event_.duration = token;
          break;
        case 'c':
          if (is_key(key, "cat")) event_.category = token_text(token);
          break;
        case 'n':
          if (is_key(key, "name")) event_.name = text_of(field.value());
          break;
        case 'a':
          if (is_key(key, "args") && token.front() == '{') SIMDJSON_TRY(read_arguments(field.value()));
          break;
        default: break;
      }
    }
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_arguments(simdjson::ondemand::value value) {
    simdjson::ondemand::object object;
    SIMDJSON_TRY(value.get_object().get(object));
    for (auto result : object) {
      simdjson::ondemand::field field;
      SIMDJSON_TRY(std::move(result).get(field));
      const char* key = field.key().raw();
      const auto token = [&field] { return field.value().raw_json_token(); };
      switch (key[0]) {
        case 'E':
        case 'e':
          if (std::memcmp(key + 1, "xternal id\"", 11) == 0) event_.external_id = whole_number(token());
          break;
        case 'c':
          if (is_key(key, "correlation")) event_.correlation = whole_number(token());
          break;
        case 'S':
          if (is_key(key, "Sequence number")) event_.sequence = whole_number(token());
          break;
        case 'F':
          if (is_key(key, "Fwd thread id")) event_.forward_thread = whole_number(token());
          break;
        case 'd':
          if (is_key(key, "device")) event_.device = whole_number(token());
          break;
        case 'h':
          if (is_key(key, "hlo_op")) event_.hlo_op = text_of(field.value());
          if (is_key(key, "hlo_module")) event_.hlo_module = text_of(field.value());
          break;
        case 'l':
          if (is_key(key, "long_name")) event_.long_name = text_of(field.value());
          break;
        case 's':
          if (is_key(key, "step_num")) event_.is_step = true;
          break;
        case 't':
          if (is_key(key, "tf_op")) event_.tf_op = text_of(field.value());
          break;
        case 'M':
          if (is_key(key, "Module Hierarchy")) event_.module_hierarchy = text_of(field.value());
          break;
        case 'n':
          if (is_key(key, "name")) event_.argument_name = text_of(field.value());
          break;
        case 'o':
          if (is_key(key, "op")) event_.operation = token_text(token());
          break;
        case 'i':
          if (std::memcmp(key, "input", 5) == 0) event_.inputs.push_back(text_of(field.value()));
          break;
        default: break;
      }
    }
    return simdjson::SUCCESS;
  }

  // The text without escapes, or as it is in the file if an escape is invalid.
  static std::string_view text_of(simdjson::ondemand::value value) {
    const std::string_view token = value.raw_json_token();
    const std::string_view text = token_text(token);
    if (token.front() != '"' || text.size() == token.size()) return {};
    if (text.find('\\') == std::string_view::npos) return text;
    std::string_view unescaped;
    return value.get_string().get(unescaped) == simdjson::SUCCESS ? unescaped : text;
  }

  simdjson::ondemand::parser parser_{kMaxEntryBytes * 2};
  JsonEvent event_;
};

JsonEventReader::JsonEventReader(ByteSource& bytes)
    : bytes_(bytes), buffer_(2 * kLeastRoom), entry_(std::make_unique<EntryReader>()) {
  find_list();
}

JsonEventReader::~JsonEventReader() = default;

void JsonEventReader::refuse(const std::string& problem, const std::string& mend) const {
  throw InputError({bytes_.name()}, fmt::format("byte {}: {}", offset_ + at_, problem), mend);
}

bool JsonEventReader::fill() {
  if (at_end_) return false;
  const std::size_t begin = at_ > 0 ? at_ - 1 : 0;  // read_list() needs the byte before an entry
  std::copy(buffer_.data() + begin, buffer_.data() + end_, buffer_.data());
  end_ -= begin;
  offset_ += begin;
  at_ -= begin;
  filled_ = true;
  if (buffer_.size() - end_ < kLeastRoom) {
    if (buffer_.size() >= kMaxEntryBytes) {
      refuse(fmt::format("no entry ends within {} MiB", kMaxEntryBytes >> 20), std::string(kMendJson));
    }
    buffer_.resize(buffer_.size() * 2);
  }
  const std::size_t wanted = buffer_.size() - end_ - simdjson::SIMDJSON_PADDING;
  const std::size_t got = bytes_.read(buffer_.data() + end_, wanted);
  end_ += got;
  at_end_ = got < wanted;
  return true;
}

void JsonEventReader::find_list() {
  constexpr std::string_view kMendTrace =
      "give a Chrome trace: a JSON list of events, or an object with the list \"traceEvents\"";
  fill();
  while (true) {
    const std::size_t begin = skip_blanks(text(), text().starts_with("\xEF\xBB\xBF") ? 3 : 0);
    if (begin == end_) {
      if (fill()) continue;
      throw InputError({bytes_.name()}, "the file is empty", std::string(kMendTrace));
    }
    if (buffer_[begin] == '[') {
      plain_list_ = true;
      at_ = begin + 1;
      return;
    }
    at_ = begin;
    if (buffer_[begin] != '{') refuse("the text is no JSON object or list", std::string(kMendTrace));
    at_ = read_members(begin + 1, true);
    if (at_ != kNone) return;
    at_ = 0;
    if (!fill()) throw InputError({bytes_.name()}, "there is no list \"traceEvents\"", std::string(kMendTrace));
  }
}

// Reads members of the outermost object from `at` on, up to the list's bracket. Returns the position after it, or kNone
// if the text ends before.
std::size_t JsonEventReader::read_members(std::size_t at, bool until_list) {
  const std::string_view text = this->text();
  while (true) {
    at = skip_blanks(text, at);
    while (at < text.size() && text[at] == ',') at = skip_blanks(text, at + 1);
    if (at >= text.size() || text[at] != '"') return kNone;
    const std::size_t key_end = skip_string(text, at);
    if (key_end == kNone) return kNone;
    const std::string_view key = text.substr(at + 1, key_end - at - 2);
    at = skip_blanks(text, key_end);
    if (at >= text.size() || text[at] != ':') return kNone;
    at = skip_blanks(text, at + 1);
    if (at >= text.size()) return kNone;
    if (until_list && key == "traceEvents" && text[at] == '[') return at + 1;
    const std::size_t value_end = skip_value(text, at);
    if (value_end == kNone) return kNone;
    if (key == "schemaVersion" || key == "deviceProperties") pytorch_header_ = true;
    if (key == "baseTimeNanoseconds") {
      base_time_ = whole_number(text.substr(at, value_end - at)).value_or(0);
      if (base_time_ < 0 || base_time_ > (Nanoseconds{1} << 62)) base_time_ = 0;
    }
    if (key == "distributedInfo") {
      const std::string_view info = text.substr(at, value_end - at);
      world_size_ = distributed_number(info, "world_size", 1);
      rank_ = distributed_number(info, "rank", 0);
    }
    at = value_end;
  }
}

void JsonEventReader::read(const std::function<void(const JsonEvent&)>& take,
                           const std::function<void(double)>& progress) {
  bool may_follow = true;  // at the list's beginning or after a comma, where an entry may begin
  while (true) {
    at_ = skip_blanks(text(), at_);
    if (may_follow && filled_ && read_list(take)) {
      may_follow = false;
      continue;
    }
    const std::size_t entry_end = at_ < end_ ? skip_value(text(), at_) : kNone;
    if (entry_end == kNone) {
      if (progress) progress(bytes_.share());
      if (!fill()) return truncate();
      continue;
    }
    const char first = buffer_[at_];
    if (first == ']') return end_list();
    if (first == ',' && !may_follow) {
      ++at_;
      may_follow = true;
      continue;
    }
    if (!may_follow) refuse("the list goes on without a comma", std::string(kMendJson));
    if (entry_end == at_) refuse("no entry begins here", std::string(kMendJson));
    if (first == '{') {
      read_entry(entry_end, take);
    } else {
      ++not_objects_;
    }
    ++entries_;
    at_ = entry_end;
    may_follow = false;
  }
}

// Reads as many entries from at_ on as are found at once. Returns whether there were any.
bool JsonEventReader::read_list(const std::function<void(const JsonEvent&)>& take) {
  filled_ = false;
  const std::size_t list_end = at_ < end_ && buffer_[at_] == '{' ? last_end(text(), at_) : kNone;
  if (list_end == kNone) return false;
  // A bracket takes the place of the byte before the first entry and of the one after the last.
  const std::size_t begin = at_ - 1;
  const std::array<char, 2> kept{std::exchange(buffer_[begin], '['), std::exchange(buffer_[list_end], ']')};
  entry_->read_list(text().substr(begin, list_end + 1 - begin), [&](std::size_t end) {
    take(entry_->event());
    ++entries_;
    at_ = begin + end;
  });
  buffer_[begin] = kept[0];
  buffer_[list_end] = kept[1];
  return at_ > begin + 1;
}

// Reads an entry whose end is known for certain.
void JsonEventReader::read_entry(std::size_t entry_end, const std::function<void(const JsonEvent&)>& take) {
  const std::string_view entry = text().substr(at_, entry_end - at_);
  simdjson::error_code problem = entry_->read(entry);
  if (problem == simdjson::UTF8_ERROR || problem == simdjson::UNESCAPED_CHARS) {
    // A trace must not be lost because of foreign bytes in names.
    mend(buffer_.data() + at_, buffer_.data() + entry_end);
    problem = entry_->read(entry);
  }
  if (problem == simdjson::MEMALLOC) throw SystemError(fmt::format("{}: out of memory", bytes_.name()));
  if (problem != simdjson::SUCCESS) {
    refuse(fmt::format("the entry that begins here is no JSON ({})", simdjson::error_message(problem)),
           "mend or delete the entry");
  }
  take(entry_->event());
}

// After the list's bracket more members of the object may follow. They are few, and what does not fit into a block is
// not needed. What follows a plain list is ignored.
void JsonEventReader::end_list() {
  ++at_;
  fill();
  if (!plain_list_) read_members(at_, false);
  do {
    at_ = end_;
  } while (fill());
}

void JsonEventReader::truncate() {
  truncated_ = true;
  whole_bytes_ = offset_ + at_;
}

}  // namespace flyball
