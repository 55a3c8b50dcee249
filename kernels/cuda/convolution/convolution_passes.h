// The forward, backward-data and backward-weights passes of a convolution with cuDNN, each as a
// struct with the same members, so that conv2d.cc can treat them alike.
#pragma once

#include <cudnn.h>

#include <cstddef>

#include "kernels/cuda/libraries/cudnn.h"

namespace pfc {

struct ConvolutionDescriptors {
  CudnnTensor x, y;
  CudnnFilter w;
};

/// In the backward passes, y is dy; x is dx in backward data, and w is dw in backward weights.
struct ConvolutionMemory {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

enum ConvolutionTensor : std::size_t { kX, kW, kY };

// Members of each pass:
//   kOutput          which tensor it writes
//   kAlgorithms      the number of algorithms
//   sums_products()  whether an algorithm sums products of the numbers themselves; others transform
//                    them first (FFT, Winograd), which loses digits
//   workspace()      the workspace of an algorithm
//   guess(), time()  the algorithms in cuDNN's estimated or measured order, fastest first
//   run()            the pass itself: out = pass + beta * out

struct ForwardPass {
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Result = cudnnConvolutionFwdAlgoPerf_t;
  using D = ConvolutionDescriptors;
  static constexpr const char* kName = "forward";
  static constexpr ConvolutionTensor kOutput = kY;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  static constexpr bool sums_products(Algorithm a) { return a < CUDNN_CONVOLUTION_FWD_ALGO_FFT; }

  static cudnnStatus_t workspace(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c,
                                 Algorithm a, std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(h, d.x.get(), d.w.get(), c, d.y.get(), a, bytes);
  }
  static cudnnStatus_t guess(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c, int most,
                             int* count, Result* results) {
    return cudnnGetConvolutionForwardAlgorithm_v7(h, d.x.get(), d.w.get(), c, d.y.get(), most,
                                                  count, results);
  }
  static cudnnStatus_t time(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c,
                            const ConvolutionMemory& m, int most, int* count, Result* results) {
    return cudnnFindConvolutionForwardAlgorithmEx(h, d.x.get(), m.x, d.w.get(), m.w, c, d.y.get(),
                                                  m.y, most, count, results, m.workspace,
                                                  m.workspace_bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c, Algorithm a,
                           const ConvolutionMemory& m, float beta) {
    const float one = 1.f;
    return cudnnConvolutionForward(h, &one, d.x.get(), m.x, d.w.get(), m.w, c, a, m.workspace,
                                   m.workspace_bytes, &beta, d.y.get(), m.y);
  }
};

struct BackwardDataPass {
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Result = cudnnConvolutionBwdDataAlgoPerf_t;
  using D = ConvolutionDescriptors;
  static constexpr const char* kName = "backward data";
  static constexpr ConvolutionTensor kOutput = kX;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  static constexpr bool sums_products(Algorithm a) {
    return a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 || a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  }

  static cudnnStatus_t workspace(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c,
                                 Algorithm a, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(h, d.w.get(), d.y.get(), c, d.x.get(), a,
                                                        bytes);
  }
  static cudnnStatus_t guess(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c, int most,
                             int* count, Result* results) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(h, d.w.get(), d.y.get(), c, d.x.get(), most,
                                                       count, results);
  }
  static cudnnStatus_t time(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c,
                            const ConvolutionMemory& m, int most, int* count, Result* results) {
    return cudnnFindConvolutionBackwardDataAlgorithmEx(h, d.w.get(), m.w, d.y.get(), m.y, c,
                                                       d.x.get(), m.x, most, count, results,
                                                       m.workspace, m.workspace_bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c, Algorithm a,
                           const ConvolutionMemory& m, float beta) {
    const float one = 1.f;
    return cudnnConvolutionBackwardData(h, &one, d.w.get(), m.w, d.y.get(), m.y, c, a, m.workspace,
                                        m.workspace_bytes, &beta, d.x.get(), m.x);
  }
};

struct BackwardWeightsPass {
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Result = cudnnConvolutionBwdFilterAlgoPerf_t;
  using D = ConvolutionDescriptors;
  static constexpr const char* kName = "backward weights";
  static constexpr ConvolutionTensor kOutput = kW;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  static constexpr bool sums_products(Algorithm a) {
    return a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 || a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
           a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
  }

  static cudnnStatus_t workspace(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c,
                                 Algorithm a, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(h, d.x.get(), d.y.get(), c, d.w.get(), a,
                                                          bytes);
  }
  static cudnnStatus_t guess(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c, int most,
                             int* count, Result* results) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, d.x.get(), d.y.get(), c, d.w.get(),
                                                         most, count, results);
  }
  static cudnnStatus_t time(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c,
                            const ConvolutionMemory& m, int most, int* count, Result* results) {
    return cudnnFindConvolutionBackwardFilterAlgorithmEx(h, d.x.get(), m.x, d.y.get(), m.y, c,
                                                         d.w.get(), m.w, most, count, results,
                                                         m.workspace, m.workspace_bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t h, const D& d, cudnnConvolutionDescriptor_t c, Algorithm a,
                           const ConvolutionMemory& m, float beta) {
    const float one = 1.f;
    return cudnnConvolutionBackwardFilter(h, &one, d.x.get(), m.x, d.y.get(), m.y, c, a,
                                          m.workspace, m.workspace_bytes, &beta, d.w.get(), m.w);
  }
};

}  // namespace pfc
