#include "dist/c10d_group.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

static_assert(NCCL_MAJOR == 2 && NCCL_MINOR == 28,
              "NCCL's header must be the wheel's: c10d holds an ncclConfig_t by value");

namespace trainctl::dist {

std::unique_ptr<Communicator> make_nccl(const GroupOptions& options, c10::Device device) {
  using Type = c10d::ProcessGroup::BackendType;
  const RankInfo rank_info = options.rank_info;
  return run_collective("forming the NCCL group", Caller{rank_info, options.heartbeat}, [&] {
    const auto store = make_c10d_store(options);
    auto nccl = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    nccl->timeout = options.timeout;
    const auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank_info.rank,
                                                                     rank_info.world_size, nccl);
    backend->setBoundDeviceId(device);
    backend->eagerConnectSingleDevice(device);
    return wrap_group(make_group(store, device, Type::NCCL, backend), device, options.heartbeat);
  });
}

std::string nccl_version() { return c10d::getNcclVersion(); }

}  // namespace trainctl::dist
