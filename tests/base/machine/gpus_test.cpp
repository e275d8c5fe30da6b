#include "base/machine/gpus.hpp"

#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

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

TEST_CASE("present_gpus: device files are listed with the UUID and model of the driver") {
  const TempFolder root;
  CHECK(present_gpus(root.path()).empty());
  fs::create_directories(root / "dev");
  for (const char* name : {"nvidia0", "nvidia2", "nvidiactl", "nvidia-uvm"})
    std::ofstream(root / "dev" / name) << "";
  const fs::path card = root / "proc/driver/nvidia/gpus/0000:01:00.0";
  fs::create_directories(card);
  std::ofstream(card / "information")
      << "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-bb33\nDevice Minor: \t 2\n";
  const std::vector<Gpu> found = present_gpus(root.path());
  REQUIRE(found.size() == 2);
  CHECK(found[0].device == "/dev/nvidia0");
  CHECK(found[0].uuid.empty());
  CHECK(found[1].device == "/dev/nvidia2");
  CHECK(found[1].uuid == "GPU-bb33");
  CHECK(found[1].model == "NVIDIA H200");
  CHECK(gpu_models(found, Strings{"/dev/nvidia2", "/dev/nvidia0", "MIG-1"}) ==
        Strings{"NVIDIA H200", "/dev/nvidia0", "MIG-1"});
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
