#include "train/state/rng.hpp"

#include "base/error.hpp"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <mutex>
#include <string>

namespace trainctl::train {
namespace {

struct Source {
  std::string name;
  at::Device device;
};

std::vector<Source> sources(at::Device device) {
  std::vector<Source> all{{"cpu", at::kCPU}};
  if (!device.is_cpu())
    all.push_back({at::DeviceTypeName(device.type(), /*lower_case=*/true), device});
  return all;
}

at::Tensor state_of(const Source& source) {
  at::Generator generator = at::globalContext().defaultGenerator(source.device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set(const Source& source, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(source.device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::checkpoint, fmt::format("'{}' is no state of its random numbers: {}",
                                                   source.name, error.what_without_backtrace()));
  }
}

}  // namespace

std::vector<stage::NamedTensor> random_states(at::Device device) {
  std::vector<stage::NamedTensor> states;
  for (const Source& source : sources(device)) states.push_back({source.name, state_of(source)});
  return states;
}

void set_random_states(at::Device device, const std::vector<stage::NamedTensor>& states) {
  const std::vector<Source> wanted = sources(device);
  ENSURE(checkpoint, states.size() == wanted.size(),
         "expected the states of {} generators of random numbers, found {}", wanted.size(),
         states.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [name, state] = states[i];
    ENSURE(checkpoint, name == wanted[i].name,
           "expected the state of the random numbers of '{}', found '{}'", wanted[i].name, name);
    set(wanted[i], state.contiguous());
  }
}

}  // namespace trainctl::train
