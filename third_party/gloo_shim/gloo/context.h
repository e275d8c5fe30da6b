#pragma once
// Declares the names that c10d's header uses; the wheel contains the definitions.
#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds);
  std::chrono::milliseconds getTimeout() const;
};
}  // namespace gloo
