#include "dist/c10d_group.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace trainctl::dist {

std::unique_ptr<Communicator> make_gloo(const GroupOptions& options) {
  using Type = c10d::ProcessGroup::BackendType;
  const Place place = options.place;
  return collective("forming the Gloo group", Caller{place, options.heartbeat}, [&] {
    const auto store = make_c10d_store(options);
    auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
    auto group = c10::make_intrusive<c10d::ProcessGroup>(store, place.rank, place.world_size);
    group->setBackend(
        at::kCPU, Type::GLOO,
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.world_size, gloo));
    group->setDefaultBackend(Type::GLOO);
    return wrap_group(std::move(group), at::kCPU, options.heartbeat);
  });
}

}  // namespace trainctl::dist
