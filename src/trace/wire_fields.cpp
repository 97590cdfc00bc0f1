// Uses Protocol Buffers' own stream for tags and varints; texts stay where they are.
#include "trace/wire_fields.h"

namespace flyball {

WireFields::WireFields(std::string_view message)
    : in_(reinterpret_cast<const std::uint8_t*>(message.data()), static_cast<int>(message.size())) {}

bool WireFields::next() {
  const std::uint32_t tag = in_.ReadTag();
  if (tag == 0) {
    whole_ = whole_ && in_.ConsumedEntireMessage();
    return false;
  }
  field_ = static_cast<int>(tag >> 3);
  number_ = 0;
  bytes_ = {};
  switch (tag & 7) {
    case 0: whole_ = in_.ReadVarint64(&number_); break;
    case 1: whole_ = in_.ReadLittleEndian64(&number_); break;
    case 2: {
      std::uint32_t length = 0;
      const void* data = nullptr;
      int left = 0;
      whole_ = in_.ReadVarint32(&length);
      if (!whole_ || length == 0) break;
      whole_ = in_.GetDirectBufferPointer(&data, &left) && length <= static_cast<std::uint32_t>(left);
      if (!whole_) break;
      bytes_ = {static_cast<const char*>(data), length};
      whole_ = in_.Skip(static_cast<int>(length));
      break;
    }
    case 5: whole_ = in_.Skip(4); break;
    default: whole_ = false;
  }
  return whole_;
}

}  // namespace flyball
