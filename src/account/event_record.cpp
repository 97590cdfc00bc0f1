#include "account/event_record.h"

namespace flyball {

void EventRecords::advance(LaterPart& part) {
  part.ended = !part.records->sorter.next(part.head);
  if (part.ended) return;
  part.head.name = part.names[part.head.name];
  part.head.module = part.names[part.head.module];
  part.head.lane = part.lanes[part.head.lane];
}

bool EventRecords::next(EventRecord& record) {
  if (later_parts.empty()) return sorter.next(record);
  LaterPart* from = nullptr;
  const EventRecord* earliest = ended_ ? nullptr : &head_;
  for (LaterPart& part : later_parts) {
    if (part.ended || (earliest != nullptr && !sorted_before(part.head, *earliest))) continue;
    from = &part;
    earliest = &part.head;
  }
  if (earliest == nullptr) return false;
  record = *earliest;
  if (from != nullptr) {
    advance(*from);
  } else {
    ended_ = !sorter.next(head_);
  }
  return true;
}

void EventRecords::rewind() {
  sorter.rewind();
  if (later_parts.empty()) return;
  ended_ = !sorter.next(head_);
  for (LaterPart& part : later_parts) {
    part.records->sorter.rewind();
    advance(part);
  }
}

std::uint64_t EventRecords::spilled_bytes() const {
  std::uint64_t bytes = sorter.spilled_bytes();
  for (const LaterPart& part : later_parts) bytes += part.records->sorter.spilled_bytes();
  return bytes;
}

}  // namespace flyball
