#include "data/read_ahead/read_queue.hpp"

#include "data/core/parallel.hpp"

#include <sys/uio.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <system_error>
#include <thread>

namespace trainctl::data {
namespace {

std::int64_t read_once(const ReadRequest& request) {
  iovec part{request.out.data(), request.out.size()};
  ssize_t count = -1;
  do {
    count = ::preadv(request.fd, &part, 1, static_cast<off_t>(request.offset));
  } while (count < 0 && errno == EINTR);
  return count < 0 ? -errno : count;
}

class ThreadQueue final : public ReadQueue {
 public:
  explicit ThreadQueue(unsigned threads) {
    try {
      for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // fewer threads are enough
    }
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    asked_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;

  void submit(const ReadRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    asked_.notify_one();
  }

  void collect(unsigned least, std::vector<ReadResult>& results) override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return results_.size() >= least; });
    results.insert(results.end(), results_.begin(), results_.end());
    results_.clear();
  }

 private:
  void run() {
    prepare_thread("trainctl-read", Priority::normal);
    std::unique_lock lock(mutex_);
    while (true) {
      asked_.wait(lock, [&] { return closed_ || !requests_.empty(); });
      if (requests_.empty()) return;
      const ReadRequest request = requests_.front();
      requests_.pop_front();
      lock.unlock();
      const std::int64_t result = read_once(request);
      lock.lock();
      results_.push_back({request.tag, result});
      ended_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable asked_;
  std::condition_variable ended_;
  std::deque<ReadRequest> requests_;
  std::vector<ReadResult> results_;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ReadQueue> thread_queue(unsigned threads) {
  return std::make_unique<ThreadQueue>(threads);
}

}  // namespace trainctl::data
