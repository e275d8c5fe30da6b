#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trainctl {

/// An NVIDIA device file and what the driver calls the card; the name is empty where the driver
/// does not tell.
struct Gpu {
  std::string device;      // "/dev/nvidia0"
  std::string uuid;        // "GPU-8a6b..."
  std::string model = {};  // "NVIDIA H200"
};

/// The device files there are, by number. They say nothing about the driver: only CUDA itself does.
/// `root` is "/" outside tests.
std::vector<Gpu> present_gpus(const std::filesystem::path& root = "/");

/// Those that CUDA_VISIBLE_DEVICES leaves: numbers and (beginnings of) UUIDs; the list ends at the
/// first entry that is neither, a card named twice leaves none, and a MIG slice is one device.
/// `list` is null where it is not set.
std::vector<std::string> visible_gpus(std::span<const Gpu> present, const char* list);

/// What the driver calls those of `devices` that are present; a MIG slice, or a card whose name is
/// not told, by what it is called in `devices`.
std::vector<std::string> gpu_models(std::span<const Gpu> present,
                                    std::span<const std::string> devices);

}  // namespace trainctl
