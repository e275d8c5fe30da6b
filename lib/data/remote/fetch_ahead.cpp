#include "data/remote/fetch_ahead.hpp"

#include "base/error.hpp"
#include "data/remote/mount.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

namespace trainctl::data {
namespace {

constexpr int kThreads = 8;                  // they wait for answers
constexpr std::int64_t kMostAhead = 16'384;  // samples
// Of the budget, for what is not used yet: what was used longest ago gives way before it.
constexpr std::uint64_t kShare = 4;

}  // namespace

FetchAhead::FetchAhead(std::shared_ptr<const Dataset> dataset, int readers)
    : dataset_(std::move(dataset)), source_(dataset_->fetchable()) {
  if (source_ == nullptr) return;
  most_bytes_ =
      remote_tier()->folder().budget() / kShare / static_cast<std::uint64_t>(std::max(readers, 1));
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    // Fewer do too; without any, whoever needs a sample fetches it.
  }
}

FetchAhead::~FetchAhead() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void FetchAhead::begin(Sequence sequence) {
  if (source_ == nullptr) return;
  const std::uint64_t fetches = remote_tier()->folder().fetches();
  const std::lock_guard lock(mutex_);
  if (round_ > 0 && fetches == fetches_) sequence.count = 0;
  fetches_ = fetches;
  sequence_ = std::move(sequence);
  ++round_;
  next_ = used_ = 0;
  bytes_ = 0;
  sizes_.clear();
  changed_.notify_all();
}

void FetchAhead::used(std::int64_t count) {
  if (source_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  for (const std::int64_t end = used_ + count; used_ < end; ++used_) {
    const auto found = sizes_.find(used_);
    if (found == sizes_.end()) continue;
    bytes_ -= found->second;
    sizes_.erase(found);
  }
  next_ = std::max(next_, used_);
  changed_.notify_all();
}

bool FetchAhead::has_work() const {
  return next_ < sequence_.count && next_ - used_ < kMostAhead && bytes_ < most_bytes_;
}

void FetchAhead::run() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "trainctl-fetch");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return quit_ || has_work(); });
    if (quit_) return;
    const std::int64_t number = next_++;
    const std::int64_t sample = sequence_.sample(number);
    const std::uint64_t round = round_;
    lock.unlock();
    std::uint64_t bytes = 0;
    try {
      bytes = source_->fetch(sample);
    } catch (const Error&) {  // whoever needs the sample meets it, and says which
    }
    lock.lock();
    if (round != round_ || number < used_) continue;
    sizes_[number] = bytes;
    bytes_ += bytes;
  }
}

}  // namespace trainctl::data
