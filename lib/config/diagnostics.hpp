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

/// A second place that belongs to a problem, shown above it: "first given here".
struct Note {
  Position position;
  std::string text;
};

/// The `length` of a position whose line is not shown, because it holds a secret.
inline constexpr int kHiddenLine = -1;

struct Diagnostic {
  Severity severity = Severity::error;
  Position position;
  std::string message;                 // "unknown key 'learning_rte' in optimizer 'adam'"
  std::string hint;                    // beside the caret: "did you mean 'lr'?"; may be empty
  Note earlier;                        // shown if its position has a source
  ErrorKind kind = ErrorKind::config;  // of an error: whether the config or the data is at fault
};

enum class Color : std::uint8_t { off, on };

/// Collects every problem of a config before anything starts, up to kMostCollected errors and as
/// many warnings. Order of report: source, line, column.
class Diagnostics {
 public:
  static constexpr std::size_t kMostCollected = 1000;

  void error(const Position& position, std::string message, std::string hint = {});
  void warning(const Position& position, std::string message, std::string hint = {});

  void add(Diagnostic diagnostic);

  [[nodiscard]] int error_count() const { return errors_; }
  /// Whether there were more problems than are collected.
  [[nodiscard]] bool truncated() const { return truncated_; }
  /// Whether an error stands at this place of a file or override.
  [[nodiscard]] bool has_error_at(const Position& position) const {
    return bad_places_.contains({position.source, position.line, position.column});
  }
  /// In the order of report, each problem once.
  [[nodiscard]] std::vector<Diagnostic> sorted() const;
  /// Like a compiler's: "file:line:col: error: ...", the source line, the caret; at the end "3
  /// errors in mnist.yaml".
  [[nodiscard]] std::string render(Color color = Color::off) const;
  /// Throws one Error whose message is render(), if there is any error: of kind data where only the
  /// data is at fault.
  void throw_if_errors() const;

 private:
  std::vector<Diagnostic> all_;
  std::set<std::tuple<std::shared_ptr<const Source>, int, int>> bad_places_;  // line and column
  int errors_ = 0;
  int warnings_ = 0;
  ErrorKind kind_ = ErrorKind::resource;  // of the errors: the config's outranks the data's
  bool truncated_ = false;
};

}  // namespace trainctl::config
