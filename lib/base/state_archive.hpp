#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl {

/// Saves the plain values of an object that change from step to step, or restores them. The same
/// serialize() does both, so that they cannot diverge. Numbers are restored bit for bit.
class StateArchive {
 public:
  using ValuePointer = std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*,
                                    std::optional<double>*, std::vector<std::uint64_t>*>;

  virtual ~StateArchive() = default;
  /// Saves the value, or overwrites it with the saved one. Throws Error(checkpoint) naming the key
  /// if no value was saved, or a value of another type.
  virtual void value(std::string_view key, ValuePointer target) = 0;
  /// Returns true while values are saved, and otherwise whether a value was saved. It is for values
  /// that archives of earlier versions lack.
  [[nodiscard]] virtual bool has(std::string_view key) const = 0;
  /// Puts the values that `body` saves or restores into a separate group under the key.
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
