#pragma once

#include "config/position.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::config {

enum class Severity : std::uint8_t { error, warning };

/// A second place that belongs to a problem, shown above it: "first given here".
struct Note {
  Position position;
  std::string text;
};

struct Diagnostic {
  Severity severity = Severity::error;
  Position position;
  std::string message;  // "unknown key 'learning_rte' in optimizer 'adam'"
  std::string hint;     // beside the caret: "did you mean 'lr'?"; may be empty
  Note earlier;         // shown if its position has a source
};

enum class Color : std::uint8_t { off, on };

/// Collects every problem of a config before anything starts. Order of report: source, line, column.
class Diagnostics {
 public:
  void error(const Position& position, std::string message, std::string hint = {});
  void warning(const Position& position, std::string message, std::string hint = {});

  void add(Diagnostic diagnostic);

  [[nodiscard]] int error_count() const;
  /// In the order of report, each problem once.
  [[nodiscard]] std::vector<Diagnostic> sorted() const;
  /// Like a compiler's: "file:line:col: error: ...", the source line, the caret; at the end "3 errors in mnist.yaml".
  [[nodiscard]] std::string render(Color color = Color::off) const;
  /// Throws one Error(config) whose message is render(), if there is any error.
  void throw_if_errors() const;

 private:
  std::vector<Diagnostic> all_;
};

}  // namespace trainctl::config
