#include "net/event_parser.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace flyball {
namespace {

TEST(EventParser, ReadsEventsHoweverTheBytesAreCut) {
  const std::string stream = ":\n\nevent: power\r\ndata: {\"a\":1}\r\n\r\ndata:x\ndata\ndata: z\n\nid: 7\n\ndata: cut";
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    EventParser parser;
    std::vector<ServerEvent> events;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      for (ServerEvent& event : parser.feed(std::string_view(stream).substr(at, step))) events.push_back(event);
    }
    ASSERT_EQ(events.size(), 2u) << step;
    EXPECT_EQ(events[0].name, "power");
    EXPECT_EQ(events[0].data, "{\"a\":1}");
    EXPECT_EQ(events[1].name, "");
    EXPECT_EQ(events[1].data, "x\n\nz");
  }
}

TEST(EventParser, EndlessLinesAreRefused) {
  EventParser parser(100);
  EXPECT_THROW(static_cast<void>(parser.feed(std::string(101, 'a'))), SystemError);
  EventParser many(100);
  EXPECT_THROW(for (int i = 0; i < 10; ++i) static_cast<void>(many.feed("data: 0123456789012345\n")), SystemError);
}

}  // namespace
}  // namespace flyball
