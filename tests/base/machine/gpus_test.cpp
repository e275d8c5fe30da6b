#include "base/machine/gpus.hpp"

#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <cstdlib>

using namespace trainctl;

namespace {

using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

const std::vector<Gpu> kFour{{"/dev/nvidia0", "GPU-aa11"},
                             {"/dev/nvidia1", "GPU-aa22"},
                             {"/dev/nvidia2", "GPU-bb33"},
                             {"/dev/nvidia3", "GPU-cc44"}};

std::size_t count(const char* list) { return visible_gpus(kFour, list).size(); }

}  // namespace

TEST_CASE("present_gpus: GPUs are listed by PCI address, not by the number of their device file") {
  const TempFolder root;
  CHECK(present_gpus(root.path()).empty());
  for (const char* name : {"nvidia0", "nvidia1", "nvidia2", "nvidia5", "nvidiactl", "nvidia-uvm"})
    put_text(root / "dev" / name, "");
  const fs::path driver = root / "proc/driver/nvidia/gpus";
  put_text(driver / "0000:c1:00.0/information",
           "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-aa11\nDevice Minor: \t 0\n");
  put_text(driver / "0000:1b:00.0/information", "GPU UUID: \t GPU-bb33\nDevice Minor: \t 2\n");
  put_text(driver / "10000:01:00.0/information", "GPU UUID: \t GPU-cc44\nDevice Minor: \t 1\n");
  put_text(driver / "0000:02:00.0/information", "Device Minor: \t 9\n");  // not in this container
  const std::vector<Gpu> found = present_gpus(root.path());
  Strings devices;
  for (const Gpu& gpu : found) devices.push_back(gpu.device);
  // CUDA numbers them so if CUDA_DEVICE_ORDER is PCI_BUS_ID. The last one is not described.
  CHECK(devices == Strings{"/dev/nvidia2", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia5"});
  CHECK(found[0].pci_bus == "0000:1b:00.0");
  CHECK(found[1].uuid == "GPU-aa11");
  CHECK(found[1].model == "NVIDIA H200");
  CHECK(found[3].uuid.empty());
  CHECK(visible_gpus(found, "0,2") == Strings{"/dev/nvidia2", "/dev/nvidia1"});
  CHECK(gpu_models(found, Strings{"/dev/nvidia0", "/dev/nvidia2", "MIG-1"}) ==
        Strings{"NVIDIA H200", "/dev/nvidia2", "MIG-1"});
}

TEST_CASE("numbers_by_pci: only if CUDA_DEVICE_ORDER is not set or is PCI_BUS_ID") {
  ::unsetenv(kGpuOrder);
  CHECK(numbers_by_pci());
  for (const char* order : {"PCI_BUS_ID", "FASTEST_FIRST", ""}) {
    ::setenv(kGpuOrder, order, 1);
    CHECK(numbers_by_pci() == (std::string(order) == "PCI_BUS_ID"));
  }
  ::unsetenv(kGpuOrder);
}

TEST_CASE("CUDA_VISIBLE_DEVICES: GPUs are selected by number or UUID prefix") {
  CHECK(count(nullptr) == 4);
  CHECK(visible_gpus(kFour, "0") == Strings{"/dev/nvidia0"});
  CHECK(visible_gpus(kFour, "3, 1") == Strings{"/dev/nvidia3", "/dev/nvidia1"});
  CHECK(visible_gpus(kFour, "GPU-bb,GPU-aa11") == Strings{"/dev/nvidia2", "/dev/nvidia0"});
  CHECK(visible_gpus(kFour, "2gpu") == Strings{"/dev/nvidia2"});
}

TEST_CASE("CUDA_VISIBLE_DEVICES: an empty list, -1 or an invalid entry selects no GPU") {
  for (const char* list : {"", "-1", "none", "NoDevFiles", " "}) CHECK(count(list) == 0);
}

TEST_CASE("CUDA_VISIBLE_DEVICES: an invalid entry ends the list, and a duplicate selects no GPU") {
  CHECK(count("0,7,1") == 1);
  CHECK(count("0,-1,1") == 1);
  CHECK(count("1,,2") == 1);
  CHECK(count("GPU-aa,0") == 0);  // the prefix matches two GPUs
  CHECK(count("0,GPU-zz,1") == 1);
  CHECK(count("0,1,0") == 0);
}

TEST_CASE("CUDA_VISIBLE_DEVICES: one MIG slice is visible at most, and none without a GPU") {
  CHECK(count("MIG-1234,MIG-5678") == 1);
  CHECK(visible_gpus({}, "MIG-1234").empty());
  CHECK(visible_gpus({}, "0").empty());
}

TEST_CASE("CUDA_VISIBLE_DEVICES: a UUID selects a GPU that the driver does not describe") {
  const std::vector<Gpu> unknown{{"/dev/nvidia0", ""}, {"/dev/nvidia1", "GPU-aa11"}};
  CHECK(visible_gpus(unknown, "GPU-zz") == Strings{"GPU-zz"});
  CHECK(visible_gpus(unknown, "GPU-aa,GPU-zz") == Strings{"/dev/nvidia1", "GPU-zz"});
  CHECK(visible_gpus(unknown, "GPU-zz,GPU-zz").empty());
  CHECK(visible_gpus({}, "GPU-zz").empty());
}

TEST_CASE("named_gpus: counts entries that have the form of a GPU up to the first other one") {
  CHECK(named_gpus(nullptr) == 0);
  for (const char* list : {"", " ", "-1", "none", "NoDevFiles", ",0"}) {
    CAPTURE(list);
    CHECK(named_gpus(list) == 0);
  }
  CHECK(named_gpus("7") == 1);
  CHECK(named_gpus(" 0, GPU-8a6b") == 2);
  CHECK(named_gpus("0,1,-1,2") == 2);
  CHECK(named_gpus("MIG-1,MIG-2") == 1);
}
