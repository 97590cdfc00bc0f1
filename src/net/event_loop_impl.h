// The inside of EventLoop, which only files of this folder include.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "net/event_loop.h"

namespace flyball {

class EventLoop::Impl {
 public:
  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
};

}  // namespace flyball
