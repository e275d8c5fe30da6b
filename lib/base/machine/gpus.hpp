#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trainctl {

/// An NVIDIA device file and the names that the driver reports for the GPU, or empty names.
struct Gpu {
  std::string device;      // "/dev/nvidia0"
  std::string uuid;        // "GPU-8a6b..."
  std::string model = {};  // "NVIDIA H200"
};

/// Returns the NVIDIA device files by number. It does not check whether CUDA works. `root` is "/"
/// outside tests.
std::vector<Gpu> present_gpus(const std::filesystem::path& root = "/");

/// Returns the devices that `list`, the value of CUDA_VISIBLE_DEVICES or null, selects: numbers and
/// UUID prefixes up to the first invalid entry. If a GPU is listed twice no GPU is visible, and a
/// MIG slice counts as one device.
std::vector<std::string> visible_gpus(std::span<const Gpu> present, const char* list);

/// Returns the model of each device, or its name in `devices` for a MIG slice or an unknown GPU.
std::vector<std::string> gpu_models(std::span<const Gpu> present,
                                    std::span<const std::string> devices);

}  // namespace trainctl
