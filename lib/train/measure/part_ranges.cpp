#include "train/measure/part_ranges.hpp"

#include <torch/csrc/profiler/stubs/base.h>

#include <array>
#include <utility>

namespace trainctl::train {
namespace {

using torch::profiler::impl::cudaStubs;

/// By Part; what is no part of its own has no name.
constexpr std::array<const char*, kParts> kNames{"data_wait",  "h2d",        "forward",
                                                 "backward",   "allreduce",  "optimizer",
                                                 "evaluation", "checkpoint", nullptr};

bool is_of_no_step(Part part) { return part == Part::eval || part == Part::checkpoint; }

}  // namespace

bool PartRanges::available() { return cudaStubs()->enabled(); }

PartRanges::~PartRanges() {
  end_part();
  end_step();
}

void PartRanges::begin_step() {
  end_part();
  end_step();
  cudaStubs()->rangePush("step");
  in_step_ = true;
}

void PartRanges::enter(Part part) {
  end_part();
  if (is_of_no_step(part)) end_step();
  const char* name = kNames.at(static_cast<std::size_t>(part));
  if (name == nullptr) return;
  cudaStubs()->rangePush(name);
  in_part_ = true;
}

void PartRanges::end_part() {
  if (std::exchange(in_part_, false)) cudaStubs()->rangePop();
}

void PartRanges::end_step() {
  if (std::exchange(in_step_, false)) cudaStubs()->rangePop();
}

}  // namespace trainctl::train
