#include "engine/setup/provenance.hpp"

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "base/version.hpp"
#include "device/device.hpp"
#include "dist/communicator.hpp"

#include <fmt/ranges.h>
#include <torch/version.h>

#include <array>
#include <span>

namespace trainctl::engine {
namespace {

constexpr std::uint64_t kMostConfigBytes = 4 << 20;

struct Fact {
  const char* key;
  const char* called;
};
constexpr std::array<Fact, 7> kFacts{{{"torch", "libtorch"},
                                      {"threads", "the number of threads"},
                                      {"device", "the device"},
                                      {"gpu", "the GPU"},
                                      {"cuda", "the CUDA version"},
                                      {"cpu", "the CPU"},
                                      {"cpu_features", "the list of CPU features"}}};

std::string fact(const checkpoint::Manifest& manifest, const std::string& key) {
  const auto found = manifest.facts.find(key);
  return found == manifest.facts.end() ? "" : found->second;
}

const char* or_none(const std::string& text) { return text.empty() ? "none" : text.c_str(); }

}  // namespace

checkpoint::Manifest origin_of(const OriginContext& context) {
  const Machine machine = read_machine();
  checkpoint::Manifest origin;
  const std::string config =
      read_file(context.run_dir / "config.resolved.yaml", kMostConfigBytes, ReadFailure::resource);
  origin.version = program_version();
  origin.config_hash = to_hex(hash_bytes(std::as_bytes(std::span(config))));
  origin.facts = {{"torch", TORCH_VERSION},
                  {"threads", std::to_string(context.threads.threads)},
                  {"channels_last", context.channels_last ? "true" : "false"},
                  {"fp32_precision", context.backends.fp32_precision},
                  {"benchmark", context.backends.benchmark ? "true" : "false"},
                  {"device", at::DeviceTypeName(context.device.type(), /*lower_case=*/true)},
                  {"cpu", machine.cpu_model},
                  {"cpu_features", fmt::format("{}", fmt::join(machine.cpu_features, " "))},
                  {"config", config}};
  if (context.device.is_cuda()) {
    const device::GpuInfo gpu = device::gpu_info(context.device);
    origin.facts["gpu"] = fmt::format("{}, compute capability {}", gpu.name, gpu.capability);
    origin.facts["cuda"] = fmt::format("{}, NCCL {}", gpu.versions, dist::nccl_version());
  }
  if (context.threads.taken > 0)
    origin.facts["threads_taken"] = fmt::format("{}", context.threads.taken);
  for (const auto& [split, fingerprint] : context.data_fingerprints)
    origin.facts["data." + split] = fingerprint;
  return origin;
}

std::optional<int> threads_of(const checkpoint::Manifest& saved) {
  const auto threads = parse_number<int>(fact(saved, "threads"));
  return threads && *threads > 0 ? threads : std::nullopt;
}

double threads_taken_of(const checkpoint::Manifest& saved) {
  return parse_number<double>(fact(saved, "threads_taken")).value_or(0);
}

std::optional<bool> channels_last_of(const checkpoint::Manifest& saved) {
  const std::string text = fact(saved, "channels_last");
  return text.empty() ? std::nullopt : std::optional(text == "true");
}

std::string changed_data(const checkpoint::Manifest& saved, const checkpoint::Manifest& now) {
  std::vector<std::string> changes;
  for (const std::string split : {"train", "val"}) {
    const std::string before = fact(saved, "data." + split);
    const std::string after = fact(now, "data." + split);
    if (!before.empty() && !after.empty() && before != after)
      changes.push_back(fmt::format("fingerprint of dataset.{}: {} -> {}", split, before, after));
  }
  return join(changes, ", ");
}

std::string why_not_bitwise(const checkpoint::Manifest& saved, const ResumeContext& now) {
  std::vector<std::string> differences;
  const auto compare = [&](const char* called, const std::string& before,
                           const std::string& after) {
    if (before == after) return;
    const bool is_long = before.size() + after.size() > 60;
    differences.push_back(
        is_long ? fmt::format("{} changed", called)
                : fmt::format("{} was {} and is now {}", called, or_none(before), or_none(after)));
  };
  compare("the world size", std::to_string(saved.world_size), std::to_string(now.world_size));
  compare("trainctl", saved.version, now.origin.version);
  for (const Fact& one : kFacts)
    compare(one.called, fact(saved, one.key), fact(now.origin, one.key));
  if (channels_last_of(saved))
    compare("trainer.channels_last", fact(saved, "channels_last"),
            fact(now.origin, "channels_last"));
  if (!fact(saved, "fp32_precision").empty())
    compare("the precision of float32 products", fact(saved, "fp32_precision"),
            fact(now.origin, "fp32_precision"));
  if (fact(now.origin, "benchmark") == "true")
    differences.emplace_back("trainer.benchmark measures the kernels of cuDNN again");
  if (saved.world_size == now.world_size)
    compare("the layout of the gradient buckets", fact(saved, "buckets"), now.buckets);
  if (now.local_sgd && saved.reason == "max_steps")
    differences.emplace_back(
        "trainer.max_steps ended the epoch early, and local_sgd averaged the weights at that step");
  return join(differences, "; ");
}

}  // namespace trainctl::engine
