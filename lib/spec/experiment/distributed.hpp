#pragma once

#include "config/schema/describe.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::spec {

enum class Backend { automatic, gloo, nccl };
constexpr std::array<const char*, 3> enum_names(Backend) { return {"auto", "gloo", "nccl"}; }

/// What the ranks share.
enum class Strategy { ddp, zero1, local_sgd, data_parallel };
constexpr std::array<const char*, 4> enum_names(Strategy) {
  return {"ddp", "zero1", "local_sgd", "data_parallel"};
}

enum class Compression { none, bf16, fp16, powersgd };
constexpr std::array<const char*, 4> enum_names(Compression) {
  return {"none", "bf16", "fp16", "powersgd"};
}

struct Distributed {
  static constexpr auto kSummary = "How ranks exchange gradients.";

  Strategy type = Strategy::ddp;
  Backend backend = Backend::automatic;
  double bucket_cap_mb = 25;
  double timeout_s = 600;
  std::string interface;  // empty: what the supervisors of the nodes talk over
  Compression compression = Compression::none;
  std::int64_t powersgd_rank = 1;
  bool find_unused_parameters = false;
  std::optional<std::int64_t> sync_every;

  static void describe(config::Describe<Distributed>& options);  // distributed.cpp
};

}  // namespace trainctl::spec
