#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trainctl {

/// An NVIDIA device file and what the driver calls the card; the name is empty where the driver
/// does not tell.
struct Gpu {
  std::string device;  // "/dev/nvidia0"
  std::string uuid;    // "GPU-8a6b..."
};

/// The device files there are, by number. They say nothing about the driver: only CUDA itself does.
/// `root` is "/" outside tests.
std::vector<Gpu> present_gpus(const std::filesystem::path& root = "/");

/// Those that CUDA_VISIBLE_DEVICES leaves: numbers and (beginnings of) UUIDs; the list ends at the
/// first entry that is neither, a card named twice leaves none, and a MIG slice is one device.
/// `list` is null where it is not set.
std::vector<std::string> visible_gpus(std::span<const Gpu> present, const char* list);

}  // namespace trainctl
