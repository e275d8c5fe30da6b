#include "base/machine/numa.hpp"

#include "base/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <thread>

using namespace trainctl;

namespace {

using Cores = std::vector<int>;

std::vector<NumaNode> two_nodes() { return {{0, {0, 1, 4, 5}}, {1, {2, 3, 6, 7}}}; }

Cores all_cores() { return {0, 1, 2, 3, 4, 5, 6, 7}; }

}  // namespace

TEST_CASE("parse_core_list: only the kernel's format is accepted") {
  CHECK(parse_core_list("0-3,8,10-11\n") == Cores{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_core_list("5") == Cores{5});
  for (const char* text : {"", "\n", "a", "3-1", "1-", "-1", "1,,2", "0-99999999", "1 2"}) {
    CAPTURE(text);
    CHECK(parse_core_list(text).empty());
  }
}

TEST_CASE("numa_nodes: nodes are sorted by number, and nodes without cores are omitted") {
  const TempFolder root;
  CHECK(numa_nodes(root.path()).empty());
  const auto nodes = root / "sys/devices/system/node";
  put_text(nodes / "node10/cpulist", "2-3\n");
  put_text(nodes / "node2/cpulist", "0-1\n");
  put_text(nodes / "node3/cpulist", "\n");  // this node has only memory
  put_text(nodes / "online", "0-3\n");
  put_text(nodes / "nodes/cpulist", "7\n");
  const std::vector<NumaNode> found = numa_nodes(root.path());
  REQUIRE(found.size() == 2);
  CHECK(found[0].number == 2);
  CHECK(found[0].cores == Cores{0, 1});
  CHECK(found[1].number == 10);
}

TEST_CASE("node_of_gpu: it is the NUMA node of the GPU's PCI address") {
  const TempFolder root;
  const auto driver = root / "proc/driver/nvidia/gpus";
  put_text(driver / "0000:17:00.0/information", "Model: \t\t H200\nDevice Minor: \t 1\n");
  put_text(driver / "0000:27:00.0/information", "Device Minor: \t 11\n");
  put_text(root / "sys/bus/pci/devices/0000:17:00.0/numa_node", "1\n");
  put_text(root / "sys/bus/pci/devices/0000:27:00.0/numa_node", "-1\n");
  CHECK(node_of_gpu("/dev/nvidia1", root.path()) == 1);
  CHECK_FALSE(node_of_gpu("/dev/nvidia11", root.path()).has_value());
  CHECK_FALSE(node_of_gpu("/dev/nvidia2", root.path()).has_value());
  CHECK_FALSE(node_of_gpu("MIG-8a6b", root.path()).has_value());
}

TEST_CASE("near_cores: the cores are on the GPU's NUMA node or on the rank's share of nodes") {
  const Cores first{0, 1, 4, 5};
  const Cores second{2, 3, 6, 7};
  CHECK(near_cores(two_nodes(), all_cores(), {0, 1, 1}) == second);
  CHECK(near_cores(two_nodes(), all_cores(), {0, 2, {}}) == first);
  CHECK(near_cores(two_nodes(), all_cores(), {1, 2, {}}) == second);
  CHECK(near_cores(two_nodes(), all_cores(), {1, 4, {}}) == first);
  CHECK(near_cores(two_nodes(), all_cores(), {2, 4, {}}) == second);
  CHECK(near_cores(two_nodes(), all_cores(), {2, 3, {}}) == second);
  CHECK(near_cores(two_nodes(), all_cores(), {1, 2, 9}) == second);  // node 9 does not exist
  std::vector<NumaNode> four = two_nodes();
  four.push_back({2, {8, 9}});
  four.push_back({3, {10, 11}});
  CHECK(near_cores(four, Cores{0, 2, 8, 10}, {1, 2, {}}) == Cores{8, 10});
}

TEST_CASE("near_cores: it is empty if no node is preferred") {
  const std::vector<NumaNode> one{{0, {0, 1, 2, 3}}};
  CHECK(near_cores({}, all_cores(), {0, 1, {}}).empty());
  CHECK(near_cores(one, Cores{0, 1}, {1, 2, 0}).empty());
  CHECK(near_cores(two_nodes(), all_cores(), {0, 1, {}}).empty());  // the rank has all nodes
  CHECK(near_cores(two_nodes(), Cores{0, 1}, {0, 2, {}}).empty());  // it already runs only there
  CHECK(near_cores(two_nodes(), Cores{0, 1}, {0, 1, 1}).empty());  // it is not allowed to run there
}

namespace {

using Nodes = std::vector<std::optional<int>>;

std::vector<Cores> own_cores(const std::vector<NumaNode>& nodes, const Cores& allowed,
                             const Nodes& gpu_nodes) {
  return cores_of_ranks(nodes, allowed, gpu_nodes);
}

}  // namespace

TEST_CASE("cores_of_ranks: ranks on one node get disjoint parts of nearly equal size") {
  CHECK(own_cores({}, {0, 1, 2, 3}, Nodes(2)) == std::vector<Cores>{{0, 1}, {2, 3}});
  CHECK(own_cores({}, {4, 5}, Nodes(2)) == std::vector<Cores>{{4}, {5}});
  CHECK(own_cores({}, {0, 1, 2, 3, 4}, Nodes(2)) == std::vector<Cores>{{0, 1}, {2, 3, 4}});
  CHECK(own_cores({{0, {0, 1, 2, 3}}}, {0, 1, 3}, Nodes(3)) == std::vector<Cores>{{0}, {1}, {3}});
}

TEST_CASE("cores_of_ranks: a single rank and more ranks than cores are not pinned") {
  CHECK(own_cores({}, {0, 1, 2, 3}, Nodes(1)).empty());
  CHECK(own_cores({}, {0, 1}, Nodes(3)).empty());
  CHECK(own_cores(two_nodes(), {0, 2, 3, 6, 7}, Nodes(4)).empty());  // node 0 has one core for two
}

TEST_CASE("cores_of_ranks: a rank gets cores of one node, its GPU's if that is known") {
  CHECK(own_cores(two_nodes(), all_cores(), Nodes(2)) ==
        std::vector<Cores>{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(own_cores(two_nodes(), all_cores(), Nodes(4)) ==
        std::vector<Cores>{{0, 1}, {4, 5}, {2, 3}, {6, 7}});
  CHECK(own_cores(two_nodes(), all_cores(), {1, 0}) ==
        std::vector<Cores>{{2, 3, 6, 7}, {0, 1, 4, 5}});
  CHECK(own_cores(two_nodes(), all_cores(), {1, 1}) == std::vector<Cores>{{2, 3}, {6, 7}});
}

TEST_CASE("by_physical_core: hardware threads of one core are adjacent") {
  const TempFolder root;
  const auto cpu = root / "sys/devices/system/cpu";
  for (const int core : {0, 1, 2, 3}) {
    const std::string siblings = core % 2 == 0 ? "0,2\n" : "1,3\n";
    put_text(cpu / ("cpu" + std::to_string(core)) / "topology/thread_siblings_list", siblings);
  }
  CHECK(by_physical_core(Cores{0, 1, 2, 3}, root.path()) == Cores{0, 2, 1, 3});
  CHECK(by_physical_core(Cores{7, 5}, root.path()) == Cores{5, 7});  // the topology is unknown
}

TEST_CASE("CoreGuard: the thread is pinned, and its cores are restored afterwards") {
  const Cores before = allowed_cores();
  const Cores one{before.front()};
  {
    const CoreGuard guard(one);
    CHECK(allowed_cores() == one);
  }
  CHECK(allowed_cores() == before);
  const CoreGuard none({});
  const Cores missing{1 << 14};
  const CoreGuard invalid(missing);
  CHECK(allowed_cores() == before);
}
