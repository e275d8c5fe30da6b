#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trainctl {

/// An NVIDIA device file and the names that the driver gives the card; empty where it gives none.
struct Gpu {
  std::string device;      // "/dev/nvidia0"
  std::string uuid;        // "GPU-8a6b..."
  std::string model = {};  // "NVIDIA H200"
};

/// Returns the device files, by number; whether CUDA works is another question. `root` is "/"
/// outside tests.
std::vector<Gpu> present_gpus(const std::filesystem::path& root = "/");

/// Returns those that `list`, CUDA_VISIBLE_DEVICES or null, leaves: numbers and beginnings of UUIDs
/// up to the first other entry. A card named twice leaves none, and a MIG slice is one device.
std::vector<std::string> visible_gpus(std::span<const Gpu> present, const char* list);

/// Returns the model of each device; of a MIG slice or an unknown card its name in `devices`.
std::vector<std::string> gpu_models(std::span<const Gpu> present,
                                    std::span<const std::string> devices);

}  // namespace trainctl
