// Seeds libtorch's CPU generator before every test of unit_torch. Otherwise the generator takes its
// seed from the operating system, and a test without at::manual_seed draws other numbers in each
// process. TRAINCTL_TEST_SEED=N chooses another seed: a test whose outcome depends on the seed is
// wrong.
//
// It also makes libtorch use one thread, unless OMP_NUM_THREADS is set. The threads of libgomp spin
// while they wait for each other, so tests that run next to each other take up to 28 times as much
// CPU time with two threads, and the tensors are too small to gain from them.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "support/catch.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <cstdlib>
#include <mutex>

namespace {

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

class PrepareEachTest final : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& /*test*/) override {
    if (std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(1);
    const char* text = std::getenv("TRAINCTL_TEST_SEED");
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(text == nullptr ? 1 : std::strtoull(text, nullptr, 10));
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(PrepareEachTest)
