#pragma once

#include "base/error.hpp"
#include "config/tree/node.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace trainctl::config {

enum class Severity : std::uint8_t { error, warning };

/// A second position that belongs to a problem and is shown above it: "first defined here".
struct Note {
  Position position;
  std::string text;
};

/// The `length` of a position whose line is not shown because it contains a secret.
inline constexpr int kHiddenLine = -1;

struct Diagnostic {
  Severity severity = Severity::error;
  Position position;
  std::string message;                 // "unknown key 'learning_rte' in optimizer 'adam'"
  std::string hint;                    // next to the caret: "did you mean 'lr'?"; may be empty
  Note earlier;                        // shown if its position has a source
  ErrorKind kind = ErrorKind::config;  // for an error: whether the config or the data is the cause
};

enum class Color : std::uint8_t { off, on };

/// Collects all problems of a config before a run starts, up to kMostCollected errors and as many
/// warnings. They are reported in the order of source, line and column.
class Diagnostics {
 public:
  static constexpr std::size_t kMostCollected = 1000;

  void error(const Position& position, std::string message, std::string hint = {});
  void warning(const Position& position, std::string message, std::string hint = {});

  /// Adds a problem. If it has no hint, the hint is the "\nhint: " part of its message, if any.
  void add(Diagnostic diagnostic);

  [[nodiscard]] int error_count() const { return errors_; }
  /// Returns whether there were more problems than could be collected.
  [[nodiscard]] bool truncated() const { return truncated_; }
  /// Returns whether an error was reported at this position of a file or override.
  [[nodiscard]] bool has_error_at(const Position& position) const {
    return bad_places_.contains({position.source, position.line, position.column});
  }
  /// Returns each problem once, in the order of the report.
  [[nodiscard]] std::vector<Diagnostic> sorted() const;
  /// Returns a report in the style of a compiler: "file:line:col: error: ...", the source line, the
  /// caret, and "3 errors in mnist.yaml" at the end.
  [[nodiscard]] std::string render(Color color = Color::off) const;
  /// Throws one Error with the message of render() if there are errors; its kind is `data` if only
  /// the data has errors.
  void throw_if_errors() const;

 private:
  std::vector<Diagnostic> all_;
  std::set<std::tuple<std::shared_ptr<const Source>, int, int>> bad_places_;  // line, column
  int errors_ = 0;
  int warnings_ = 0;
  ErrorKind kind_ = ErrorKind::resource;  // kind of the errors: config takes precedence over data
  bool truncated_ = false;
};

}  // namespace trainctl::config
