#include "study/bench/deadline.hpp"

#include "base/error.hpp"

#include <utility>

namespace trainctl::study {
namespace {

class Watch : public report::Sink {
 public:
  Watch(double at, std::shared_ptr<bool> struck) : at_(at), struck_(std::move(struck)) {}

  void on_event(int /*rank*/, const events::Event& /*event*/) override {}

  // What is thrown here ends the job.
  void on_tick(double now) override {
    if (now < at_ || *struck_) return;
    *struck_ = true;
    throw Error(ErrorKind::hang, "it was ended, since it took longer than it may");
  }

  void close() override {}

 private:
  double at_;
  std::shared_ptr<bool> struck_;
};

}  // namespace

Sinks Deadline::sinks() const {
  Sinks sinks;
  if (at_) sinks.push_back(std::make_unique<Watch>(*at_, struck_));
  return sinks;
}

}  // namespace trainctl::study
