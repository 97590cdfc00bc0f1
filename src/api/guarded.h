// Where exceptions of the C interface end: each becomes a code, and its words are kept for flyball_last_error in the
// thread that called.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"
#include "client/agent_client.h"
#include "flyball/flyball.h"

namespace flyball {

inline thread_local std::string last_error;

inline int failed(int code, const char* words) noexcept {
  try {
    last_error = words;
  } catch (...) {
    last_error.clear();
  }
  return code;
}

// Runs the action. What it throws becomes a code and flyball_last_error.
template <class Action>
int guarded(Action action) noexcept {
  try {
    action();
    return FLYBALL_OK;
  } catch (const UsageError& error) {
    return failed(FLYBALL_USAGE, error.what());
  } catch (const InputError& error) {
    return failed(FLYBALL_USAGE, error.what());
  } catch (const AgentRefusal& error) {
    return failed(error.status() == 400 || error.status() == 422 ? FLYBALL_USAGE : FLYBALL_SYSTEM, error.what());
  } catch (const SystemError& error) {
    return failed(FLYBALL_SYSTEM, error.what());
  } catch (const std::exception& error) {
    return failed(FLYBALL_FAULT, error.what());
  } catch (...) {
    return failed(FLYBALL_FAULT, "an exception of an unknown kind");
  }
}

}  // namespace flyball
