// Windows of the C interface, in a program that loads the library: energy that the sensor did not tell whole is told
// with FLYBALL_INCOMPLETE. Real NVML calls on a simulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "flyball/flyball.h"
#include "loop/library.h"
#include "sim/simulated.h"

namespace flyball::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class WindowLibrary : public Library {
 public:
  WindowLibrary() {
    find(options_init, "flyball_session_options_init");
    find(open, "flyball_session_open");
    find(close, "flyball_session_close");
    find(window_begin, "flyball_window_begin");
    find(window_end, "flyball_window_end");
  }

  decltype(&flyball_session_options_init) options_init;
  decltype(&flyball_session_open) open;
  decltype(&flyball_session_close) close;
  decltype(&flyball_window_begin) window_begin;
  decltype(&flyball_window_end) window_end;
};

class CWindow : public ::testing::Test {
 protected:
  CWindow() {
    load(FLYBALL_SIM_LIBRARY);  // by its name it is the machine's libnvidia-ml.so.1 from here on
    library_.options_init(&options_, sizeof options_);
    options_.clocks = "none";
    options_.profile = 0;
    options_.user = this;
    options_.notice = [](void* user, const char* words) {
      auto* self = static_cast<CWindow*>(user);
      const std::lock_guard lock(self->mutex_);
      self->notices_ += words + std::string("\n");
    };
    session_ = library_.open(&options_);
  }
  ~CWindow() override {
    take_faults_back(*machine_, 0);
    library_.close(session_);
  }

  void fault(const char* words) { ASSERT_TRUE(do_fault(*machine_, 0, *parse_fault(words))); }
  std::string notices() {
    const std::lock_guard lock(mutex_);
    return notices_;
  }

  struct Window {
    int result = -1;
    double time_s = -1.0;
    double energy_j = -1.0;
    std::string error;
  };
  // 0.15 s, of which 0.05 s are under the fault, if there is one.
  Window window(const char* words = nullptr) {
    Window window;
    EXPECT_EQ(library_.window_begin(session_), FLYBALL_OK) << library_.last_error();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (words != nullptr) fault(words);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    window.result = library_.window_end(session_, &window.time_s, &window.energy_j);
    window.error = library_.last_error();
    return window;
  }
  // On a machine that stalls a window may be spoilt; one of many is not.
  bool a_window_is_whole() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const Window whole = window();
      if (whole.result == FLYBALL_OK && whole.energy_j > 0.0) return true;
    }
    return false;
  }

  SimulatedMachine machine_{"a100", 1, 1.0};
  WindowLibrary library_;
  flyball_session_options options_{};
  std::mutex mutex_;
  std::string notices_;
  flyball_session* session_ = nullptr;
};

// A hundred milliseconds are told before the fault, so that both figures are there: the length of the window, and
// energy of which the idle board's 60 W make some.
TEST_F(CWindow, EnergyThatTheSensorDidNotTellWholeIsIncomplete) {
  ASSERT_NE(session_, nullptr) << library_.last_error();
  struct Case {
    const char* fault;
    const char* words;
  };
  for (const Case& one : {Case{"error:nvmlDeviceGetTotalEnergyConsumption=999", "of GPU:0's readings failed"},
                          Case{"hang:nvmlDeviceGetTotalEnergyConsumption=600", "GPU:0 does not answer"}}) {
    SCOPED_TRACE(one.fault);
    ASSERT_TRUE(a_window_is_whole()) << library_.last_error();
    const Window broken = window(one.fault);
    EXPECT_EQ(broken.result, FLYBALL_INCOMPLETE);
    EXPECT_THAT(broken.error, HasSubstr(one.words));
    EXPECT_GE(broken.time_s, 0.15);
    EXPECT_GT(broken.energy_j, 0.0);
    EXPECT_THAT(notices(), HasSubstr("the energy of this window is not complete: " + broken.error));
    take_faults_back(*machine_, 0);
  }
  EXPECT_TRUE(a_window_is_whole()) << "what was incomplete is over: " << library_.last_error();
}

TEST_F(CWindow, ACounterThatStandsStillIsIncomplete) {
  ASSERT_NE(session_, nullptr) << library_.last_error();
  ASSERT_TRUE(a_window_is_whole()) << library_.last_error();
  const Window frozen = window("counter-frozen");
  EXPECT_EQ(frozen.result, FLYBALL_INCOMPLETE);
  EXPECT_THAT(frozen.error, AnyOf(HasSubstr("GPU:0's counter stood still"), HasSubstr("has not shown all of it")));
  EXPECT_GT(frozen.energy_j, 0.0);
}

// The code is of the window's figures alone: a call out of order is none, and the figures may be left out.
TEST_F(CWindow, OtherMistakesAreNot) {
  ASSERT_NE(session_, nullptr) << library_.last_error();
  double figure = 7.0;
  EXPECT_EQ(library_.window_end(session_, &figure, nullptr), FLYBALL_USAGE);
  EXPECT_THAT(library_.last_error(), HasSubstr("no window is open"));
  EXPECT_EQ(figure, 0.0);
  ASSERT_EQ(library_.window_begin(session_), FLYBALL_OK);
  EXPECT_EQ(library_.window_begin(session_), FLYBALL_USAGE);
  fault("error:nvmlDeviceGetTotalEnergyConsumption=999");
  EXPECT_EQ(library_.window_end(session_, nullptr, nullptr), FLYBALL_INCOMPLETE);
  EXPECT_EQ(library_.window_end(nullptr, &figure, &figure), FLYBALL_OK) << "no session measures nothing";
}

}  // namespace
}  // namespace flyball::testing
