#pragma once
// Declares what c10d's header names. Never touched: the wheel holds the definitions.
#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds);
  std::chrono::milliseconds getTimeout() const;
};
}  // namespace gloo
