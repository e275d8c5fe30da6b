#include "launch/rendezvous/refusals.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <utility>

namespace trainctl::launch {
namespace {

constexpr double kPeriodS = 10;
constexpr int kMostInPeriod = 8;
constexpr std::size_t kMostKept = 64;  // where nobody takes them

}  // namespace

void Refusals::add(std::string sentence, double now) {
  see(now);
  if (in_period_ == 0) period_end_ = now + kPeriodS;
  if (++in_period_ <= kMostInPeriod && sentences_.size() < kMostKept)
    sentences_.push_back(std::move(sentence));
}

void Refusals::see(double now) {
  if (in_period_ == 0 || now < period_end_) return;
  const int besides = in_period_ - kMostInPeriod;
  in_period_ = 0;
  if (besides <= 0 || sentences_.size() >= kMostKept) return;
  sentences_.push_back(fmt::format("{} more connections were turned away within {:g} s",
                                   with_thousands(besides), kPeriodS));
}

std::vector<std::string> Refusals::take() { return std::exchange(sentences_, {}); }

}  // namespace trainctl::launch
