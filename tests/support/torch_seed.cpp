// Seeds libtorch's CPU generator before every test of unit_torch. Otherwise the generator takes its
// seed from the operating system, and a test without at::manual_seed draws other numbers in each
// process. TRAINCTL_TEST_SEED=N chooses another seed: a test whose outcome depends on the seed is
// wrong.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "support/catch.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <cstdlib>
#include <mutex>

namespace {

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

class SeedBeforeEachTest final : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& /*test*/) override {
    const char* text = std::getenv("TRAINCTL_TEST_SEED");
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(text == nullptr ? 1 : std::strtoull(text, nullptr, 10));
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(SeedBeforeEachTest)
