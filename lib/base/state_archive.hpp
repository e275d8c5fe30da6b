#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl {

/// Where a part of a run puts down the plain values that change from step to step, and from where
/// it takes them back. The same calls do both, so neither can forget what the other has. Numbers
/// come back bit for bit.
class Memo {
 public:
  using Place = std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*,
                             std::optional<double>*, std::vector<std::uint64_t>*>;

  virtual ~Memo() = default;
  /// Puts the value down, or overwrites it. Throws Error(checkpoint) naming the key where none was
  /// put down, or one of another type.
  virtual void value(std::string_view key, Place place) = 0;
  /// What `body` puts down or takes is kept apart, under the key.
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
