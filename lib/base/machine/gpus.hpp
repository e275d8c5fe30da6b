#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trainctl {

/// An NVIDIA device file and what the driver reports about the GPU, or empty texts.
struct Gpu {
  std::string device;        // "/dev/nvidia0"
  std::string uuid;          // "GPU-8a6b..."
  std::string model = {};    // "NVIDIA H200"
  std::string pci_bus = {};  // "0000:3b:00.0"
};

/// Returns the GPUs that have a device file, in the order in which CUDA numbers them if
/// CUDA_DEVICE_ORDER is PCI_BUS_ID: by PCI address. GPUs that the driver does not describe follow,
/// by the number of their device file, which says nothing about the order. It does not check
/// whether CUDA works. `root` is "/" outside tests.
std::vector<Gpu> present_gpus(const std::filesystem::path& root = "/");

/// Environment variable that determines how CUDA numbers GPUs. Workers get PCI_BUS_ID unless the
/// user sets it.
inline constexpr const char* kGpuOrder = "CUDA_DEVICE_ORDER";
inline constexpr const char* kOrderByPci = "PCI_BUS_ID";

/// Returns whether the workers of this process number GPUs in the order of present_gpus().
bool numbers_by_pci();

/// Returns the devices that `list`, the value of CUDA_VISIBLE_DEVICES or null, selects: numbers and
/// UUID prefixes up to the first invalid entry. A UUID is returned as it is if the driver does not
/// describe all GPUs, because CUDA may find its GPU. If a GPU is listed twice no GPU is visible,
/// and a MIG slice counts as one device.
std::vector<std::string> visible_gpus(std::span<const Gpu> present, const char* list);

/// Returns how many GPUs `list`, the value of CUDA_VISIBLE_DEVICES or null, names before its first
/// entry that has not the form of a number, a UUID or a MIG slice; of MIG slices at most one.
/// Whether they exist is not checked.
int named_gpus(const char* list);

/// Returns the model of each device, or its name in `devices` for a MIG slice or an unknown GPU.
std::vector<std::string> gpu_models(std::span<const Gpu> present,
                                    std::span<const std::string> devices);

}  // namespace trainctl
