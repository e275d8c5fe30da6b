#pragma once

#include "device/event.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

/// A device that has finished as much of its work as the test says. Each recorded event is a unit
/// of work, which takes a second.
struct FakeDevice {
  std::atomic<int> launched = 0;
  std::atomic<int> finished = 0;
  int waits = 0;  // of the host

  void finish_all() { finish(launched); }
  /// Finishes the first `count` units of work, if they are not finished.
  void finish(int count) { finished = std::max(finished.load(), count); }
  std::unique_ptr<trainctl::device::Event> event();
  trainctl::device::EventFactory events() {
    return [this] { return event(); };
  }
};

class FakeEvent final : public trainctl::device::Event {
 public:
  explicit FakeEvent(FakeDevice& device) : device_(device) {}
  void record() override { at_ = ++device_.launched; }
  [[nodiscard]] bool is_done() const override { return at_ <= device_.finished; }
  void wait() override {
    ++device_.waits;
    device_.finish(at_);
  }
  void block() override {}
  [[nodiscard]] double seconds_after(const Event& earlier) const override {
    return at_ - static_cast<const FakeEvent&>(earlier).at_;
  }

 private:
  FakeDevice& device_;
  int at_ = 0;
};

inline std::unique_ptr<trainctl::device::Event> FakeDevice::event() {
  return std::make_unique<FakeEvent>(*this);
}
