#include "client/energy_begin.h"

#include <gtest/gtest.h>

namespace flyball {
namespace {

CpuStatus cpu_of(double package, std::optional<Joules> dram = {}) {
  CpuStatus cpu;
  cpu.package_energy = Joules(package);
  cpu.dram_energy = dram;
  return cpu;
}

GpuStatus gpu_of(std::size_t index, std::optional<Joules> energy) {
  GpuStatus gpu;
  gpu.index = index;
  gpu.uuid = "GPU-" + std::to_string(index);
  gpu.energy = energy;
  return gpu;
}

// 100 J at first, 150 J before the restart, 7 J after it: 50 + 7 = 57 J since the first look, so it begins at -50 J.
TEST(EnergyBegin, WhatAProcessorHadCountedBeforeARestartIsAdded) {
  NodeStatus begin;
  begin.cpus = {cpu_of(100.0, Joules(10.0))};
  NodeStatus before;
  before.cpus = {cpu_of(150.0, Joules(12.0))};
  NodeStatus now;
  now.cpus = {cpu_of(7.0, Joules(13.0))};
  move_energy_begin(begin, before, now);
  EXPECT_EQ(begin.cpus[0].package_energy, Joules(-50.0));
  EXPECT_EQ(begin.cpus[0].dram_energy, Joules(10.0)) << "this one went on";
  // A second restart, at 30 J: 50 + 30 = 80 J, to which its 2 J come.
  NodeStatus later;
  later.cpus = {cpu_of(30.0)};
  NodeStatus after;
  after.cpus = {cpu_of(2.0)};
  move_energy_begin(begin, later, after);
  EXPECT_EQ(begin.cpus[0].package_energy, Joules(-80.0));
}

TEST(EnergyBegin, AProcessorWithoutReadingsIsLeftAlone) {
  NodeStatus begin;
  begin.cpus = {cpu_of(100.0)};
  NodeStatus before = begin;
  NodeStatus now;
  now.cpus = {CpuStatus{}};
  move_energy_begin(begin, before, now);
  EXPECT_EQ(begin.cpus[0].package_energy, Joules(100.0));
}

TEST(EnergyBegin, AGpuThatAnswersLateCountsFromItsFirstAnswer) {
  NodeStatus begin;
  begin.gpus = {gpu_of(0, Joules(5.0)), gpu_of(1, std::nullopt)};
  NodeStatus now;
  now.gpus = {gpu_of(0, Joules(9.0)), gpu_of(1, Joules(40.0))};
  move_energy_begin(begin, begin, now);
  ASSERT_EQ(begin.gpus.size(), 3u);
  EXPECT_EQ(begin.gpus[0].energy, Joules(5.0));
  EXPECT_EQ(begin.gpus[2].uuid, "GPU-1");
  EXPECT_EQ(begin.gpus[2].energy, Joules(40.0));
  now.gpus[1].energy = Joules(60.0);
  move_energy_begin(begin, now, now);
  EXPECT_EQ(begin.gpus.size(), 3u) << "it counts already";
}

}  // namespace
}  // namespace flyball
