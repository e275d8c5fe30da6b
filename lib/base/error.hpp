#pragma once

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace trainctl {

/// Why a command ended; the value is the exit code of the contract.
enum class ErrorKind : int {
  unexpected = 1,    // a bug of ours
  config = 2,        // usage or config
  regression = 3,    // a gate failed
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

/// The one exception of the program: a sentence with the values in it, a kind, and the frames it
/// passed on its way up.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message,
        std::source_location where = std::source_location::current());

  [[nodiscard]] ErrorKind kind() const { return kind_; }
  [[nodiscard]] int exit_code() const { return static_cast<int>(kind_); }
  [[nodiscard]] const std::string& message() const { return message_; }
  /// Where the code threw; printed for ErrorKind::unexpected only.
  [[nodiscard]] std::source_location where() const { return where_; }
  /// Outermost first, as printed: "run: optimizer 'sgd': lr must be above 0".
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

  /// Adds an outer frame, e.g. "optimizer 'sgd'".
  void add_frame(const std::string& frame);

 private:
  ErrorKind kind_;
  std::string message_;
  std::string text_;
  std::source_location where_;
};

/// Runs `body`; an Error that leaves it carries `frame` in front.
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

/// Bad input: always on. ENSURE(data, rows > 0, "{}: no rows", path) throws ErrorKind::data.
#define ENSURE(error_kind, condition, ...)                                                  \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      throw ::trainctl::Error(::trainctl::ErrorKind::error_kind, fmt::format(__VA_ARGS__)); \
    }                                                                                       \
  } while (false)

/// Our own bug: never reachable from user input.
#define ASSERT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      throw ::trainctl::Error(::trainctl::ErrorKind::unexpected, "assertion failed: " #condition); \
    }                                                                                              \
  } while (false)

namespace trainctl {

/// Returns what a caught exception means to the user: Error(resource) for memory, files or threads
/// that the system refused, Error(unexpected) for anything else that is no Error.
Error to_error(const std::exception& exception);

/// Returns whether the working directory was deleted after the process or its parent entered it.
bool working_directory_is_deleted();

}  // namespace trainctl
