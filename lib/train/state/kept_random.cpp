#include "train/state/kept_random.hpp"

#include "train/state/rng.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <cstdint>
#include <mutex>
#include <optional>

namespace trainctl::train {

struct KeptRandom::Taken {
  at::mt19937 engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
  std::uint64_t seed = 0;  // of a GPU's generator
  std::uint64_t offset = 0;
};

KeptRandom::KeptRandom(at::Device device) : device_(device), taken_(std::make_unique<Taken>()) {
  take();
}

KeptRandom::~KeptRandom() = default;

void KeptRandom::take() {
  at::Generator host = at::globalContext().defaultGenerator(at::kCPU);
  {
    const std::lock_guard<std::mutex> lock(host.mutex());
    auto* cpu = host.get<at::CPUGeneratorImpl>();
    taken_->engine = cpu->engine();
    taken_->next_float = cpu->next_float_normal_sample();
    taken_->next_double = cpu->next_double_normal_sample();
  }
  if (device_.is_cpu()) return;
  at::Generator device = at::globalContext().defaultGenerator(device_);
  const std::lock_guard<std::mutex> lock(device.mutex());
  taken_->seed = device.current_seed();
  taken_->offset = device.get_offset();
}

std::vector<stage::NamedTensor> KeptRandom::states() const {
  const std::vector<stage::NamedTensor> now = random_states(device_);
  at::Generator host = at::globalContext().defaultGenerator(at::kCPU);
  {
    const std::lock_guard<std::mutex> lock(host.mutex());
    auto* cpu = host.get<at::CPUGeneratorImpl>();
    cpu->set_engine(taken_->engine);
    cpu->set_next_float_normal_sample(taken_->next_float);
    cpu->set_next_double_normal_sample(taken_->next_double);
  }
  if (!device_.is_cpu()) {
    at::Generator device = at::globalContext().defaultGenerator(device_);
    const std::lock_guard<std::mutex> lock(device.mutex());
    device.set_current_seed(taken_->seed);
    device.set_offset(taken_->offset);
  }
  std::vector<stage::NamedTensor> then = random_states(device_);
  set_random_states(device_, now);
  return then;
}

}  // namespace trainctl::train
