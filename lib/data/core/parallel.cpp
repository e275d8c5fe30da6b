#include "data/core/parallel.hpp"

#include "base/machine/stack_signal.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <future>
#include <system_error>
#include <thread>

namespace trainctl::data {

void prepare_thread(const char* name, Priority priority) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGBUS);  // raised when a mapped file shrinks: see mapped_file.hpp
  ::sigdelset(&all, stack_signal());
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), name);
  // On Linux each thread has a separate nice value. If the call fails, loading is only slower.
  constexpr int kLower = 5;  // gives a third of the trainer's share on a contended core
  const auto thread = static_cast<id_t>(::gettid());
  if (priority == Priority::below_trainer)
    (void)::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + kLower);
}

namespace {

/// The state that workers and the caller of run_in_order() share.
class Line {
 public:
  explicit Line(const InOrder& range)
      : range_(range),
        next_(range.first),
        taken_(range.first),
        made_(static_cast<std::size_t>(range.ahead)) {}

  /// Runs in a worker until no items are left.
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
      made(mine) = {true, std::move(error)};
      ready_.notify_one();
    }
  }

  /// Runs in the caller.
  void await(std::int64_t index) {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return made(index).done; });
    if (made(index).error) std::rethrow_exception(made(index).error);
  }
  void release(std::int64_t index) {
    const std::lock_guard lock(mutex_);
    made(index) = {};
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
  Made& made(std::int64_t index) { return made_[static_cast<std::size_t>(index % range_.ahead)]; }

  const InOrder range_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable ready_;
  std::int64_t next_;
  std::int64_t taken_;
  std::vector<Made> made_;
  bool closed_ = false;
};

/// Closes the line at the end of the scope, before the threads declared above it are joined.
struct Closing {
  Line& line;
  ~Closing() { line.close(); }
};

}  // namespace

void run_in_order(const InOrder& range, const std::function<void(std::int64_t)>& make,
                  const std::function<void(std::int64_t)>& take) {
  Line line(range);
  std::vector<std::jthread> threads;
  const Closing closing{line};
  try {
    for (int i = 0; i < range.workers; ++i) threads.emplace_back([&] { line.work(make); });
  } catch (const std::system_error&) {
    if (threads.empty()) throw;  // otherwise run with fewer threads
  }
  for (std::int64_t index = range.first; index < range.end; ++index) {
    line.await(index);
    take(index);
    line.release(index);
  }
}

void run_in_threads(std::int64_t threads, const std::function<void()>& work) {
  std::vector<std::future<void>> helpers;
  try {
    for (std::int64_t i = 1; i < threads; ++i)
      helpers.push_back(std::async(std::launch::async, work));
  } catch (const std::system_error&) {  // run with fewer threads
  }
  work();
  for (std::future<void>& helper : helpers) helper.get();
}

}  // namespace trainctl::data
