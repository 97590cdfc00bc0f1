#include "account/json_events.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "account/list_cuts.h"
#include "base/error.h"

namespace flyball {
namespace {

constexpr std::size_t kBlock = 1u << 18;           // with what simdjson makes of it, less than a processor's own cache
constexpr std::size_t kMaxEntryBytes = 64u << 20;  // of one entry, and of what stands before the list
constexpr std::size_t kNone = std::string_view::npos;
constexpr std::string_view kMendJson = "check that the file is a Chrome trace and was copied whole";

std::string_view trim(std::string_view token) {
  while (!token.empty() && is_blank(token.back())) token.remove_suffix(1);
  return token;
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

// Behind the string that begins at `at`, or kNone if it does not end.
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

// Behind the value that begins at `at`, or kNone if the text ends in it.
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

void append_utf8(std::string& text, std::uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    text += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

std::optional<std::uint32_t> hex4(std::string_view text, std::size_t at) {
  std::uint32_t code = 0;
  if (at + 4 > text.size()) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 4, code, 16);
  if (error != std::errc() || end != text.data() + at + 4) return std::nullopt;
  return code;
}

// What stands between a string's quotes, without the escapes. Half a surrogate pair and unknown escapes become '?'.
std::string unescape(std::string_view raw) {
  std::string text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      text += raw[i];
      continue;
    }
    switch (const char c = raw[++i]) {
      case '"':
      case '\\':
      case '/': text += c; break;
      case 'b': text += '\b'; break;
      case 'f': text += '\f'; break;
      case 'n': text += '\n'; break;
      case 'r': text += '\r'; break;
      case 't': text += '\t'; break;
      case 'u': {
        const auto code = hex4(raw, i + 1);
        if (!code) {
          text += '?';
          break;
        }
        i += 4;
        if (*code < 0xD800 || *code > 0xDFFF) {
          append_utf8(text, *code);
          break;
        }
        const auto low =
            i + 2 < raw.size() && raw[i + 1] == '\\' && raw[i + 2] == 'u' ? hex4(raw, i + 3) : std::nullopt;
        if (*code < 0xDC00 && low && *low >= 0xDC00 && *low <= 0xDFFF) {
          append_utf8(text, 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00));
          i += 6;
        } else {
          text += '?';
        }
        break;
      }
      default: text += '?';
    }
  }
  return text;
}

// Control characters become blanks, bytes that are no UTF-8 '?'. Each for itself, whatever the text around it.
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
std::string_view unquoted(std::string_view token) {
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') return token.substr(1, token.size() - 2);
  return token;
}

std::optional<std::int64_t> parse_whole(std::string_view token) {
  token = unquoted(trim(token));
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (code != std::errc() || end != token.data() + token.size()) return std::nullopt;
  return value;
}

template <std::size_t Size>
bool is_key(const char* raw, const char (&key)[Size]) {  // raw stands in a padded buffer
  return std::memcmp(raw, key, Size - 1) == 0 && raw[Size - 1] == '"';
}

}  // namespace

// One array of entries in simdjson's hands.
class JsonEventReader::Batch {
 public:
  enum class End : std::uint8_t {
    kBracket,  // at the bracket that closes the text
    kClosed,   // at one before it, which ends the list
    kBroken,   // where the text is no JSON
  };

  // `text` begins with the bracket; simdjson's padding stands behind it.
  End read(std::string_view text, const std::function<void(const JsonEvent&)>& take) {
    begin_ = text.data();
    whole_ = 1;
    problem_ = simdjson::SUCCESS;
    End end = End::kBroken;
    const auto code = parse(text, take, end);
    if (code == simdjson::SUCCESS) return end;
    problem_ = code;
    return End::kBroken;
  }

  [[nodiscard]] std::size_t whole() const { return whole_; }  // behind the last entry, or behind the closing bracket
  [[nodiscard]] simdjson::error_code problem() const { return problem_; }
  [[nodiscard]] std::uint64_t entries() const { return entries_; }
  [[nodiscard]] std::uint64_t not_objects() const { return not_objects_; }

 private:
  simdjson::error_code parse(std::string_view text, const std::function<void(const JsonEvent&)>& take, End& end) {
    entries_ = 0;
    not_objects_ = 0;
    simdjson::ondemand::document document;
    SIMDJSON_TRY(parser_.iterate(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING).get(document));
    simdjson::ondemand::array array;
    SIMDJSON_TRY(document.get_array().get(array));
    for (auto element : array) {
      simdjson::ondemand::value value;
      SIMDJSON_TRY(element.get(value));
      const std::string_view token = value.raw_json_token();
      const auto start = static_cast<std::size_t>(token.data() - begin_);
      if (token.front() == ']') {  // a comma behind the last entry
        end = start + 1 == text.size() ? End::kBracket : End::kClosed;
        whole_ = start + 1;
        return simdjson::SUCCESS;
      }
      ++entries_;
      if (token.front() != '{') {
        ++not_objects_;
        continue;
      }
      whole_ = start;
      SIMDJSON_TRY(read_event(value));
      take(event_);
    }
    // Where the array ended says whether it was ours that ended.
    const char* place = nullptr;
    const auto code = document.current_location().get(place);
    whole_ = code == simdjson::SUCCESS ? static_cast<std::size_t>(place - begin_) : text.size();
    end = code == simdjson::SUCCESS ? End::kClosed : End::kBracket;
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_event(simdjson::ondemand::value value) {
    event_.clear();
    unescaped_count_ = 0;
    simdjson::ondemand::object object;
    SIMDJSON_TRY(value.get_object().get(object));
    for (auto result : object) {
      simdjson::ondemand::field field;
      SIMDJSON_TRY(std::move(result).get(field));
      const char* key = field.key().raw();
      const std::string_view token = field.value().raw_json_token();
      switch (key[0]) {
        case 'p':
          if (is_key(key, "ph")) event_.phase = token.size() > 1 && token[0] == '"' ? token[1] : '\0';
          if (is_key(key, "pid")) event_.process = unquoted(trim(token));
          break;
        case 't':
          if (is_key(key, "ts")) event_.time = token;
          if (is_key(key, "tid")) event_.thread = unquoted(trim(token));
          break;
        case 'd':
          if (is_key(key, "dur")) event_.duration = token;
          break;
        case 'c':
          if (is_key(key, "cat")) event_.category = unquoted(trim(token));
          break;
        case 'n':
          if (is_key(key, "name")) event_.name = text_of(token);
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
          if (std::memcmp(key + 1, "xternal id\"", 11) == 0) event_.external_id = parse_whole(token());
          break;
        case 'c':
          if (is_key(key, "correlation")) event_.correlation = parse_whole(token());
          break;
        case 'S':
          if (is_key(key, "Sequence number")) event_.sequence = parse_whole(token());
          break;
        case 'F':
          if (is_key(key, "Fwd thread id")) event_.forward_thread = parse_whole(token());
          break;
        case 'd':
          if (is_key(key, "device")) event_.device = parse_whole(token());
          break;
        case 'M':
          if (is_key(key, "Module Hierarchy")) event_.module_hierarchy = text_of(token());
          break;
        case 'n':
          if (is_key(key, "name")) event_.argument_name = text_of(token());
          break;
        case 'o':
          if (is_key(key, "op")) event_.operation = unquoted(trim(token()));
          break;
        case 'i':
          if (std::memcmp(key, "input", 5) == 0) event_.inputs.push_back(text_of(token()));
          break;
        default: break;
      }
    }
    return simdjson::SUCCESS;
  }

  std::string_view text_of(std::string_view token) {
    token = trim(token);
    if (token.size() < 2 || token.front() != '"') return {};
    token = unquoted(token);
    if (token.find('\\') == std::string_view::npos) return token;
    if (unescaped_count_ == unescaped_.size()) unescaped_.push_back(std::make_unique<std::string>());
    std::string& text = *unescaped_[unescaped_count_++];
    text = unescape(token);
    return text;
  }

  static simdjson::ondemand::parser make_parser() {
    simdjson::ondemand::parser parser(kMaxEntryBytes * 2);
    // All at once: it would grow by a little for every block that is the longest so far.
    if (parser.allocate(kBlock + 1) != simdjson::SUCCESS) throw std::bad_alloc();
    return parser;
  }

  simdjson::ondemand::parser parser_ = make_parser();
  JsonEvent event_;
  std::vector<std::unique_ptr<std::string>> unescaped_;
  std::size_t unescaped_count_ = 0;
  const char* begin_ = nullptr;
  std::size_t whole_ = 0;
  simdjson::error_code problem_ = simdjson::SUCCESS;
  std::uint64_t entries_ = 0;
  std::uint64_t not_objects_ = 0;
};

JsonEventReader::JsonEventReader(std::string name, std::unique_ptr<ByteSource> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)), batch_(std::make_unique<Batch>()) {
  buffer_.resize(kBlock + 1 + simdjson::SIMDJSON_PADDING);
  find_list();
}

JsonEventReader::JsonEventReader(const JsonEventReader& first, std::unique_ptr<ByteSource> bytes, std::uint64_t offset)
    : name_(first.name_),
      bytes_(std::move(bytes)),
      offset_(offset),
      plain_list_(first.plain_list_),
      batch_(std::make_unique<Batch>()),
      base_time_(first.base_time_) {
  buffer_.resize(kBlock + 1 + simdjson::SIMDJSON_PADDING);
  fill();
  list_ = 1;
}

JsonEventReader::~JsonEventReader() = default;

std::string_view JsonEventReader::beginning() const { return {buffer_.data(), end_}; }

bool JsonEventReader::has_header_key(std::string_view key) const {
  return std::find(header_keys_.begin(), header_keys_.end(), key) != header_keys_.end();
}

void JsonEventReader::refuse(std::size_t at, const std::string& problem, const std::string& mend) const {
  throw InputError({name_}, fmt::format("byte {}: {}", offset_ + at, problem), mend);
}

bool JsonEventReader::fill() {
  if (at_end_) return false;
  // One byte before the list stays: the bracket of the next array goes there.
  const std::size_t keep = list_ == 0 ? 0 : list_ - 1;
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(keep), buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
            buffer_.begin());
  end_ -= keep;
  list_ -= keep;
  offset_ += keep;
  const std::size_t spare = 1 + simdjson::SIMDJSON_PADDING;  // a closing bracket and the padding
  if (buffer_.size() - end_ - spare < kBlock / 2) {
    if (buffer_.size() > kMaxEntryBytes) {
      refuse(list_, fmt::format("no entry ends within {} MiB", kMaxEntryBytes >> 20), std::string(kMendJson));
    }
    buffer_.resize(buffer_.size() * 2);
  }
  const std::size_t wanted = buffer_.size() - end_ - spare;
  const std::size_t got = bytes_->read(buffer_.data() + end_, wanted);
  end_ += got;
  at_end_ = got < wanted;
  return true;
}

void JsonEventReader::find_list() {
  constexpr std::string_view kMendTrace =
      "give a Chrome trace: a JSON list of events, or an object with the list \"traceEvents\"";
  fill();
  while (true) {
    const std::string_view text(buffer_.data(), end_);
    const std::size_t begin = skip_blanks(text, text.starts_with("\xEF\xBB\xBF") ? 3 : 0);
    if (begin == text.size()) {
      if (fill()) continue;
      throw InputError({name_}, "the file is empty", std::string(kMendTrace));
    }
    if (text[begin] == '[') {
      plain_list_ = true;
      list_ = begin + 1;
      return;
    }
    if (text[begin] != '{') refuse(begin, "the text is no JSON object or list", std::string(kMendTrace));
    header_keys_.clear();
    list_ = read_members(begin + 1, true);
    if (list_ != kNone) return;
    list_ = 0;
    if (!fill()) throw InputError({name_}, "there is no list \"traceEvents\"", std::string(kMendTrace));
  }
}

// Members of the outermost object from `at` on, up to behind the list's bracket; kNone where the text ends before.
std::size_t JsonEventReader::read_members(std::size_t at, bool until_list) {
  const std::string_view text(buffer_.data(), end_);
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
    header_keys_.emplace_back(key);
    if (key == "baseTimeNanoseconds") {
      base_time_ = parse_whole(text.substr(at, value_end - at)).value_or(0);
      if (base_time_ < 0 || base_time_ > (Nanoseconds{1} << 62)) base_time_ = 0;
    }
    at = value_end;
  }
}

std::size_t JsonEventReader::find_cut() const {
  for (std::size_t at = end_; at > list_;) {
    const void* found = ::memrchr(buffer_.data() + list_, '{', at - list_);
    if (found == nullptr) return kNone;
    at = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
    const std::size_t comma = comma_before({buffer_.data() + list_, end_ - list_}, at - list_);
    if (comma != kNone) return list_ + comma;
  }
  return kNone;
}

void JsonEventReader::read(const std::function<void(const JsonEvent&)>& take,
                           const std::function<void(double)>& progress) {
  std::size_t fruitless = kNone;  // a cut that did not lead to a whole entry
  std::size_t single = kNone;     // the end of an entry that is to be read alone
  while (!done_) {
    std::size_t cut = find_cut();
    if (cut == fruitless) cut = kNone;
    bool whole_rest = cut == kNone && at_end_;
    if (whole_rest && single != kNone) {
      if (single == list_) {  // it was read: only what follows the list is damaged
        const std::size_t next = skip_blanks({buffer_.data(), end_}, list_);
        if (next < end_ && buffer_[next] == ']') {
          end_list(next + 1);
          continue;
        }
        if (next == end_) {
          truncate(next);
          continue;
        }
        if (buffer_[next] != ',') refuse(next, "the list goes on without a comma", std::string(kMendJson));
        list_ = next + 1;
        single = kNone;
        continue;
      }
      cut = single;
      whole_rest = false;
    }
    if (cut == kNone && !at_end_) {
      fruitless = kNone;
      fill();
      continue;
    }
    if (whole_rest) cut = end_;
    const char under = std::exchange(buffer_[cut], ']');
    const char before = std::exchange(buffer_[list_ - 1], '[');
    const std::string_view text(buffer_.data() + list_ - 1, cut + 2 - list_);
    const Batch::End end = batch_->read(text, take);
    buffer_[cut] = under;
    buffer_[list_ - 1] = before;
    entries_ += batch_->entries();
    not_objects_ += batch_->not_objects();
    const std::size_t whole = list_ - 1 + batch_->whole();
    if (progress) progress(bytes_->share());
    if (end == Batch::End::kClosed) {
      end_list(whole);
    } else if (end == Batch::End::kBracket) {
      if (whole_rest) {
        truncate(end_);
      } else {
        list_ = cut == single ? cut : cut + 1;
        fruitless = kNone;
      }
    } else {
      const simdjson::error_code problem = batch_->problem();
      if (problem == simdjson::MEMALLOC) throw SystemError(fmt::format("{}: out of memory", name_));
      if (batch_->entries() > 0) --entries_;  // the one that broke
      const bool progressed = whole > list_;
      list_ = std::max(whole, list_);
      if (problem == simdjson::UTF8_ERROR || problem == simdjson::UNESCAPED_CHARS) {
        // Names with foreign bytes are no reason to lose a trace.
        mend(buffer_.data() + list_, buffer_.data() + cut);
      } else if (whole_rest) {
        const std::size_t first = skip_blanks({buffer_.data(), end_}, list_);
        const std::size_t value_end = skip_value({buffer_.data(), end_}, first);
        if (value_end == kNone || value_end == end_) {
          truncate(list_);
        } else if (problem == simdjson::UNCLOSED_STRING && !progressed && single == kNone && value_end > first) {
          single = value_end;
        } else {
          refuse(list_, fmt::format("the entry that begins here is no JSON ({})", simdjson::error_message(problem)),
                 "mend or delete the entry");
        }
      } else if (cut == single) {
        refuse(list_, fmt::format("the entry that begins here is no JSON ({})", simdjson::error_message(problem)),
               "mend or delete the entry");
      } else if (!progressed) {
        fruitless = cut;
      }
    }
  }
}

void JsonEventReader::end_list(std::size_t at) {
  done_ = true;
  list_ = std::max<std::size_t>(at, 1);
  if (plain_list_) {
    // What follows a plain list is nobody's.
  } else {
    read_members(at, false);
  }
  // The members behind the list are few; nothing is wanted of what does not fit.
  while (!at_end_) {
    fill();
    if (!plain_list_ && base_time_ == 0) read_members(list_, false);
    list_ = end_;
  }
}

void JsonEventReader::truncate(std::size_t at) {
  done_ = true;
  truncated_ = true;
  whole_bytes_ = offset_ + at;
}

}  // namespace flyball
