// The terminal of `flyball top`: its alternate screen, and the keys that somebody presses there.
#pragma once

#include <termios.h>

#include <chrono>
#include <cstddef>
#include <string>

namespace flyball {

enum class TopKey { kNone, kQuit, kHelp, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kOrder };

struct TopPress {
  TopKey key = TopKey::kNone;
  char letter = 0;  // of kOrder
};

// Switches the terminal to its alternate screen, without echo and with keys told at once; the destructor brings
// everything back. There may be one at a time.
class TopScreen {
 public:
  using Clock = std::chrono::steady_clock;

  TopScreen();
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  // Draws over what is there, line by line, so that nothing flickers. Throws SystemError.
  void show(const std::string& text) const;
  // Returns the next key, or kNone when the time has come or a signal; kQuit where the terminal gives no more keys.
  [[nodiscard]] TopPress wait(Clock::time_point until) const;

  // Whether the terminal that was drawn on has gone away. Nobody looks any more then, so that this ends the program.
  [[nodiscard]] static bool is_gone();
  // Height of the terminal; 24 where it does not tell.
  [[nodiscard]] static std::size_t lines();

 private:
  termios before_{};
  bool has_keys_ = false;
};

}  // namespace flyball
