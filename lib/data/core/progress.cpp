#include "data/core/progress.hpp"

namespace trainctl::data {
namespace {

std::atomic<std::atomic<std::int64_t>*> watched = nullptr;

}  // namespace

ProgressCount::ProgressCount(std::atomic<std::int64_t>* counter) {
  watched.store(counter, std::memory_order_release);
  note_progress();
}

ProgressCount::~ProgressCount() { watched.store(nullptr, std::memory_order_release); }

void note_progress() noexcept {
  if (auto* counter = watched.load(std::memory_order_acquire))
    counter->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace trainctl::data
