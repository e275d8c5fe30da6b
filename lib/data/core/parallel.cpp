#include "data/core/parallel.hpp"

#include "base/stack_signal.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

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

namespace {

class Line {
 public:
  explicit Line(const InOrder& range)
      : range_(range),
        next_(range.first),
        taken_(range.first),
        made_(static_cast<std::size_t>(range.ahead)) {}

  /// Worker: until nothing is left to make.
  void work(const std::function<void(std::int64_t)>& make) {
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock,
                 [&] { return closed_ || next_ == range_.end || next_ < taken_ + range_.ahead; });
      if (closed_ || next_ == range_.end) return;
      const std::int64_t mine = next_++;
      lock.unlock();
      std::exception_ptr error;
      try {
        make(mine);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      made_[slot(mine)] = {true, std::move(error)};
      ready_.notify_one();
    }
  }

  /// Caller.
  void await(std::int64_t index) {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return made_[slot(index)].done; });
    if (made_[slot(index)].error) std::rethrow_exception(made_[slot(index)].error);
  }
  void release(std::int64_t index) {
    const std::lock_guard lock(mutex_);
    made_[slot(index)] = {};
    taken_ = index + 1;
    room_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
  }

 private:
  struct Made {
    bool done = false;
    std::exception_ptr error;
  };
  [[nodiscard]] std::size_t slot(std::int64_t index) const {
    return static_cast<std::size_t>(index % range_.ahead);
  }

  const InOrder range_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable ready_;
  std::int64_t next_;
  std::int64_t taken_;
  std::vector<Made> made_;
  bool closed_ = false;
};

/// Threads that are joined whatever happens.
class Threads {
 public:
  Threads(Line& line, int count, const std::function<void(std::int64_t)>& make) : line_(line) {
    try {
      for (int i = 0; i < count; ++i) threads_.emplace_back([&line, &make] { line.work(make); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // some are enough
    } catch (...) {
      join();
      throw;
    }
  }
  ~Threads() { join(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  void join() {
    line_.close();
    for (std::thread& thread : threads_) thread.join();
  }

  Line& line_;
  std::vector<std::thread> threads_;
};

}  // namespace

void run_in_order(const InOrder& range, const std::function<void(std::int64_t)>& make,
                  const std::function<void(std::int64_t)>& take) {
  Line line(range);
  const Threads threads(line, range.workers, make);
  for (std::int64_t index = range.first; index < range.end; ++index) {
    line.await(index);
    take(index);
    line.release(index);
  }
}

}  // namespace trainctl::data
