#pragma once

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace trainctl {

/// The reason why a command ended. The value is the documented exit code.
enum class ErrorKind : int {
  unexpected = 1,    // a bug in trainctl
  config = 2,        // usage or config
  regression = 3,    // a gate of --fail-on failed
  inconclusive = 4,  // too noisy to decide
  sweep_failed = 5,
  diverged = 6,
  rank_failed = 7,
  hang = 8,
  data = 9,
  checkpoint = 10,
  resource = 11,  // disk, memory, port, lock, device
  stopped = 75,
  no_progress = 93,
  interrupted = 130,
  terminated = 143,
};

/// The only exception class of the program. It holds a message with the values in it, a hint, a
/// kind, and the context frames that were added while it was passed up the stack.
///
/// A message says what happened: "cannot open a.yaml: Permission denied", "lr must be above 0, got
/// -1". The hint says what to do, and follows after a line break: "MESSAGE\nhint: use --force".
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message,
        std::source_location where = std::source_location::current());

  [[nodiscard]] ErrorKind kind() const { return kind_; }
  [[nodiscard]] int exit_code() const { return static_cast<int>(kind_); }
  /// Returns the message without frames and hint.
  [[nodiscard]] const std::string& message() const { return message_; }
  /// Returns what the user can do, without "hint: ". Empty if the message came without a hint.
  [[nodiscard]] const std::string& hint() const { return hint_; }
  /// Returns where the code threw the error. This is printed for ErrorKind::unexpected only.
  [[nodiscard]] std::source_location where() const { return where_; }
  /// Returns the frames, outermost first, the message and the hint: "run: optimizer 'sgd': lr must
  /// be ...\nhint: ...".
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

  /// Adds an outer context frame, e.g. "optimizer 'sgd'".
  void add_frame(const std::string& frame);

 private:
  ErrorKind kind_;
  std::string message_;
  std::string hint_;
  std::string text_;
  std::source_location where_;
};

/// Runs `body` and returns its result. Adds the context `frame` to an Error that `body` throws.
template <class Body>
decltype(auto) in_context(const std::string& frame, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.add_frame(frame);
    throw;
  }
}

}  // namespace trainctl

/// THROW(data, "{}: no rows", path) throws Error(data).
#define THROW(error_kind, ...) \
  throw ::trainctl::Error(::trainctl::ErrorKind::error_kind, fmt::format(__VA_ARGS__))

/// Checks input in all build types. ENSURE(data, rows > 0, "{}: no rows", path) throws Error(data).
#define ENSURE(error_kind, condition, ...)                                                  \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      throw ::trainctl::Error(::trainctl::ErrorKind::error_kind, fmt::format(__VA_ARGS__)); \
    }                                                                                       \
  } while (false)

/// Checks an invariant of the code. User input can never make the condition false.
#define ASSERT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      throw ::trainctl::Error(::trainctl::ErrorKind::unexpected, "assertion failed: " #condition); \
    }                                                                                              \
  } while (false)

namespace trainctl {

/// Converts a caught exception to an Error: Error(resource) if the system refused memory, files or
/// threads, Error(unexpected) for any other exception that is not an Error.
Error to_error(const std::exception& exception);

/// Returns whether the working directory was deleted after the process or its parent entered it.
bool working_directory_is_deleted();

}  // namespace trainctl
