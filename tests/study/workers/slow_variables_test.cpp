#include "study/workers/worker_launch.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstdlib>
#include <optional>
#include <string>

using namespace trainctl;

namespace {

/// Unsets the tested variables, and restores them at the end.
class Variables {
 public:
  Variables() {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (const char* value = std::getenv(kNames[i])) before_[i] = value;
      ::unsetenv(kNames[i]);
    }
  }
  ~Variables() {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      ::unsetenv(kNames[i]);
      if (before_[i]) ::setenv(kNames[i], before_[i]->c_str(), 1);
    }
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  static constexpr std::array kNames{"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "CUDA_LAUNCH_BLOCKING"};
  std::array<std::optional<std::string>, kNames.size()> before_;
};

}  // namespace

TEST_CASE("slow_variable: detects environment variables that slow down a run") {
  const Variables restored;
  CHECK(study::slow_variable().empty());
  ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  CHECK(study::spin_variable().empty());
  CHECK(study::slow_variable() == "CUDA_LAUNCH_BLOCKING=1");
  ::setenv("OMP_WAIT_POLICY", "ACTIVE", 1);
  CHECK(study::slow_variable() == "OMP_WAIT_POLICY=ACTIVE");
  ::setenv("GOMP_SPINCOUNT", "1000", 1);  // it takes precedence
  CHECK(study::spin_variable().empty());
  ::setenv("GOMP_SPINCOUNT", "infinity", 1);
  CHECK(study::spin_variable() == "GOMP_SPINCOUNT=infinity");
}
