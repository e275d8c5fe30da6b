#include "data/core/parallel.hpp"

#include "base/stack_signal.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

namespace trainctl::data {
namespace {

// A third of the trainer's share of a core that both want, by the kernel's weights.
constexpr int kLower = 5;

}  // namespace

void prepare_thread(const char* name, Priority priority) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGBUS);  // of a mapped file that became shorter: see lost_pages.hpp
  ::sigdelset(&all, stack_signal());
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), name);
  // On Linux a thread has a nice value of its own. A refusal costs nothing but speed.
  const auto thread = static_cast<id_t>(::gettid());
  if (priority == Priority::below_trainer)
    (void)::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + kLower);
}

}  // namespace trainctl::data
