// The part of TensorFlow's C interface that is used here (tensorflow/c/{kernels,ops,tf_tensor,tf_status}.h).
//
// Declared instead of included, and looked up when it is needed, so that this library can be built where there is no
// TensorFlow, and loaded together with any that has these functions.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct TF_Status;
struct TF_Tensor;
struct TF_KernelBuilder;
struct TF_OpDefinitionBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;
struct TF_ShapeInferenceContext;
struct TF_ShapeHandle;
}

namespace autodist {

// Of TF_Code. What is unavailable is called an internal error where an operation is not one of TensorFlow's own that
// communicate.
constexpr int kOk = 0, kInvalidArgument = 3, kAborted = 10;

constexpr int kInt32 = 3;  // of TF_DataType

// Each member is the function of that name with `TF_` before it.
struct TensorFlow {
  TF_Status* (*NewStatus)();
  void (*DeleteStatus)(TF_Status*);
  void (*SetStatus)(TF_Status*, int code, const char* message);
  int (*GetCode)(const TF_Status*);
  const char* (*Message)(const TF_Status*);

  // `release` is called when nobody has the tensor any more; at once, with a copy made, if `data` is not aligned.
  TF_Tensor* (*NewTensor)(int type, const int64_t* dims, int num_dims, void* data, size_t size,
                          void (*release)(void* data, size_t size, void* argument), void* argument);
  void* (*TensorData)(const TF_Tensor*);
  size_t (*TensorByteSize)(const TF_Tensor*);
  size_t (*DataTypeSize)(int type);
  int (*TensorType)(const TF_Tensor*);
  int (*NumDims)(const TF_Tensor*);
  int64_t (*Dim)(const TF_Tensor*, int dim);
  void (*DeleteTensor)(TF_Tensor*);

  TF_OpDefinitionBuilder* (*NewOpDefinitionBuilder)(const char* name);
  void (*OpDefinitionBuilderAddAttr)(TF_OpDefinitionBuilder*, const char* spec);
  void (*OpDefinitionBuilderAddInput)(TF_OpDefinitionBuilder*, const char* spec);
  void (*OpDefinitionBuilderAddOutput)(TF_OpDefinitionBuilder*, const char* spec);
  void (*OpDefinitionBuilderSetIsStateful)(TF_OpDefinitionBuilder*, bool is_stateful);
  void (*OpDefinitionBuilderSetShapeInferenceFunction)(TF_OpDefinitionBuilder*,
                                                       void (*infer)(TF_ShapeInferenceContext*, TF_Status*));
  void (*RegisterOpDefinition)(TF_OpDefinitionBuilder*, TF_Status*);
  TF_ShapeHandle* (*NewShapeHandle)();
  TF_ShapeHandle* (*ShapeInferenceContextScalar)(TF_ShapeInferenceContext*);
  void (*DeleteShapeHandle)(TF_ShapeHandle*);
  void (*ShapeInferenceContextGetInput)(TF_ShapeInferenceContext*, int index, TF_ShapeHandle*, TF_Status*);
  void (*ShapeInferenceContextSetOutput)(TF_ShapeInferenceContext*, int index, TF_ShapeHandle*, TF_Status*);
  void (*ShapeInferenceContextSetUnknownShape)(TF_ShapeInferenceContext*, TF_Status*);

  TF_KernelBuilder* (*NewKernelBuilder)(const char* op, const char* device, void* (*create)(TF_OpKernelConstruction*),
                                        void (*compute)(void*, TF_OpKernelContext*), void (*destroy)(void*));
  TF_KernelBuilder* (*NewAsyncKernelBuilder)(const char* op, const char* device,
                                             void* (*create)(TF_OpKernelConstruction*),
                                             void (*compute)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*),
                                             void (*destroy)(void*));
  void (*RegisterKernelBuilder)(const char* name, TF_KernelBuilder*, TF_Status*);
  void (*OpKernelConstruction_GetAttrSize)(TF_OpKernelConstruction*, const char* name, int32_t* list_size,
                                           int32_t* total_size, TF_Status*);
  void (*OpKernelConstruction_GetAttrString)(TF_OpKernelConstruction*, const char* name, char* value, size_t size,
                                             TF_Status*);
  void (*OpKernelConstruction_Failure)(TF_OpKernelConstruction*, TF_Status*);
  void (*OpKernelConstruction_GetAttrInt32)(TF_OpKernelConstruction*, const char* name, int32_t* value, TF_Status*);
  void (*OpKernelConstruction_GetAttrInt64)(TF_OpKernelConstruction*, const char* name, int64_t* value, TF_Status*);
  void (*OpKernelConstruction_GetAttrInt32List)(TF_OpKernelConstruction*, const char* name, int32_t* values, int count,
                                                TF_Status*);
  int (*NumInputs)(TF_OpKernelContext*);
  int (*NumOutputs)(TF_OpKernelContext*);
  int (*ExpectedOutputDataType)(TF_OpKernelContext*, int index);
  void (*GetInput)(TF_OpKernelContext*, int index, TF_Tensor**, TF_Status*);
  TF_Tensor* (*AllocateOutput)(TF_OpKernelContext*, int index, int type, const int64_t* dims, int num_dims,
                               size_t size, TF_Status*);
  void (*SetOutput)(TF_OpKernelContext*, int index, const TF_Tensor*, TF_Status*);
  void (*OpKernelContext_Failure)(TF_OpKernelContext*, TF_Status*);
};

// The functions in the library that the process has loaded; null where one of them is missing.
const TensorFlow* tensorflow();

}  // namespace autodist
