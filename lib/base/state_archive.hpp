#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl {

/// Saves the plain values of a part of a run that change from step to step, or restores them. The
/// same calls do both, so that neither can omit what the other has. Numbers are restored bit for
/// bit.
class StateArchive {
 public:
  using Place = std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*,
                             std::optional<double>*, std::vector<std::uint64_t>*>;

  virtual ~StateArchive() = default;
  /// Saves the value, or overwrites it. Throws Error(checkpoint) naming the key if no value was
  /// saved, or one of another type.
  virtual void value(std::string_view key, Place place) = 0;
  /// True while values are saved; else whether one was saved. For a value that archives of earlier
  /// versions lack.
  [[nodiscard]] virtual bool has(std::string_view key) const = 0;
  /// The values that `body` saves or restores are in a separate group, under the key.
  template <class Body>
  void group(std::string_view key, Body&& body) {
    enter(key);
    std::forward<Body>(body)();
    leave();
  }

 protected:
  virtual void enter(std::string_view key) = 0;
  virtual void leave() = 0;
};

}  // namespace trainctl
