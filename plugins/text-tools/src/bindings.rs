//! The WIT of this package as Rust, written by wit-bindgen 0.63 (`wit-bindgen rust wit`); do not edit.

/// What can be counted of a text.
#[derive(Clone)]
pub struct Measures {
    pub words: u32,
    pub sentences: u32,
    /// The first of the longest words.
    pub longest: ::core::option::Option<_rt::String>,
}
impl ::core::fmt::Debug for Measures {
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        f.debug_struct("Measures")
            .field("words", &self.words)
            .field("sentences", &self.sentences)
            .field("longest", &self.longest)
            .finish()
    }
}
#[doc(hidden)]
#[allow(non_snake_case, unused_unsafe)]
pub unsafe fn _export_measure_cabi<T_: Guest>(arg0: *mut u8, arg1: usize) -> *mut u8 {
    unsafe {
        #[cfg(target_arch = "wasm32")]
        _rt::run_ctors_once();
        let result1 = {
            let len0 = arg1;
            let bytes0 = _rt::Vec::from_raw_parts(arg0.cast(), len0, len0);
            T_::measure(_rt::string_lift(bytes0))
        };
        let ptr2 = (&raw mut _RET_AREA.0).cast::<u8>();
        let Measures {
            words: words3,
            sentences: sentences3,
            longest: longest3,
        } = result1;
        *ptr2.add(0).cast::<i32>() = _rt::as_i32(words3);
        *ptr2.add(4).cast::<i32>() = _rt::as_i32(sentences3);
        match longest3 {
            Some(e) => {
                *ptr2.add(8).cast::<u8>() = (1i32) as u8;
                let vec4 = (e.into_bytes()).into_boxed_slice();
                let ptr4 = vec4.as_ptr().cast::<u8>();
                let len4 = vec4.len();
                ::core::mem::forget(vec4);
                *ptr2
                    .add(8 + 2 * ::core::mem::size_of::<*const u8>())
                    .cast::<usize>() = len4;
                *ptr2
                    .add(8 + 1 * ::core::mem::size_of::<*const u8>())
                    .cast::<*mut u8>() = ptr4.cast_mut();
            }
            None => {
                *ptr2.add(8).cast::<u8>() = (0i32) as u8;
            }
        };
        ptr2
    }
}
#[doc(hidden)]
#[allow(non_snake_case)]
pub unsafe fn __post_return_measure<T_: Guest>(arg0: *mut u8) {
    unsafe {
        let l0 = i32::from(*arg0.add(8).cast::<u8>());
        match l0 {
            0 => {}
            _ => {
                let l1 = *arg0
                    .add(8 + 1 * ::core::mem::size_of::<*const u8>())
                    .cast::<*mut u8>();
                let l2 = *arg0
                    .add(8 + 2 * ::core::mem::size_of::<*const u8>())
                    .cast::<usize>();
                _rt::cabi_dealloc(l1, l2, 1);
            }
        }
    }
}
#[doc(hidden)]
#[allow(non_snake_case, unused_unsafe)]
pub unsafe fn _export_slug_cabi<T_: Guest>(arg0: *mut u8, arg1: usize) -> *mut u8 {
    unsafe {
        #[cfg(target_arch = "wasm32")]
        _rt::run_ctors_once();
        let result1 = {
            let len0 = arg1;
            let bytes0 = _rt::Vec::from_raw_parts(arg0.cast(), len0, len0);
            T_::slug(_rt::string_lift(bytes0))
        };
        let ptr2 = (&raw mut _RET_AREA.0).cast::<u8>();
        match result1 {
            Ok(e) => {
                *ptr2.add(0).cast::<u8>() = (0i32) as u8;
                let vec3 = (e.into_bytes()).into_boxed_slice();
                let ptr3 = vec3.as_ptr().cast::<u8>();
                let len3 = vec3.len();
                ::core::mem::forget(vec3);
                *ptr2
                    .add(2 * ::core::mem::size_of::<*const u8>())
                    .cast::<usize>() = len3;
                *ptr2
                    .add(::core::mem::size_of::<*const u8>())
                    .cast::<*mut u8>() = ptr3.cast_mut();
            }
            Err(e) => {
                *ptr2.add(0).cast::<u8>() = (1i32) as u8;
                let vec4 = (e.into_bytes()).into_boxed_slice();
                let ptr4 = vec4.as_ptr().cast::<u8>();
                let len4 = vec4.len();
                ::core::mem::forget(vec4);
                *ptr2
                    .add(2 * ::core::mem::size_of::<*const u8>())
                    .cast::<usize>() = len4;
                *ptr2
                    .add(::core::mem::size_of::<*const u8>())
                    .cast::<*mut u8>() = ptr4.cast_mut();
            }
        };
        ptr2
    }
}
#[doc(hidden)]
#[allow(non_snake_case)]
pub unsafe fn __post_return_slug<T_: Guest>(arg0: *mut u8) {
    unsafe {
        let l0 = i32::from(*arg0.add(0).cast::<u8>());
        match l0 {
            0 => {
                let l1 = *arg0
                    .add(::core::mem::size_of::<*const u8>())
                    .cast::<*mut u8>();
                let l2 = *arg0
                    .add(2 * ::core::mem::size_of::<*const u8>())
                    .cast::<usize>();
                _rt::cabi_dealloc(l1, l2, 1);
            }
            _ => {
                let l3 = *arg0
                    .add(::core::mem::size_of::<*const u8>())
                    .cast::<*mut u8>();
                let l4 = *arg0
                    .add(2 * ::core::mem::size_of::<*const u8>())
                    .cast::<usize>();
                _rt::cabi_dealloc(l3, l4, 1);
            }
        }
    }
}
#[doc(hidden)]
#[allow(non_snake_case, unused_unsafe)]
pub unsafe fn _export_headed_cabi<T_: Guest>(
    arg0: *mut u8,
    arg1: usize,
    arg2: *mut u8,
    arg3: usize,
) -> *mut u8 {
    unsafe {
        #[cfg(target_arch = "wasm32")]
        _rt::run_ctors_once();
        let result2 = {
            let len0 = arg1;
            let bytes0 = _rt::Vec::from_raw_parts(arg0.cast(), len0, len0);
            let len1 = arg3;
            let bytes1 = _rt::Vec::from_raw_parts(arg2.cast(), len1, len1);
            T_::headed(_rt::string_lift(bytes0), _rt::string_lift(bytes1))
        };
        let ptr3 = (&raw mut _RET_AREA.0).cast::<u8>();
        let vec4 = (result2.into_bytes()).into_boxed_slice();
        let ptr4 = vec4.as_ptr().cast::<u8>();
        let len4 = vec4.len();
        ::core::mem::forget(vec4);
        *ptr3
            .add(::core::mem::size_of::<*const u8>())
            .cast::<usize>() = len4;
        *ptr3.add(0).cast::<*mut u8>() = ptr4.cast_mut();
        ptr3
    }
}
#[doc(hidden)]
#[allow(non_snake_case)]
pub unsafe fn __post_return_headed<T_: Guest>(arg0: *mut u8) {
    unsafe {
        let l0 = *arg0.add(0).cast::<*mut u8>();
        let l1 = *arg0
            .add(::core::mem::size_of::<*const u8>())
            .cast::<usize>();
        _rt::cabi_dealloc(l0, l1, 1);
    }
}
pub trait Guest {
    /// Counts.
    #[allow(async_fn_in_trait)]
    fn measure(text: _rt::String) -> Measures;
    /// The text as a name that files and addresses may have. A text without letters and digits has none.
    #[allow(async_fn_in_trait)]
    fn slug(text: _rt::String) -> ::core::result::Result<_rt::String, _rt::String>;
    /// The text with a head above it and a line below that head.
    #[allow(async_fn_in_trait)]
    fn headed(head: _rt::String, text: _rt::String) -> _rt::String;
}
#[doc(hidden)]
macro_rules! __export_world_text_tools_cabi {
    ($ty:ident with_types_in $($path_to_types:tt)*) => {
        const _ : () = { #[unsafe (export_name = "measure")] unsafe extern "C" fn
        export_measure(arg0 : * mut u8, arg1 : usize,) -> * mut u8 { unsafe {
        $($path_to_types)*:: _export_measure_cabi::<$ty > (arg0, arg1) } } #[unsafe
        (export_name = "cabi_post_measure")] unsafe extern "C" fn
        _post_return_measure(arg0 : * mut u8,) { unsafe { $($path_to_types)*::
        __post_return_measure::<$ty > (arg0) } } #[unsafe (export_name = "slug")] unsafe
        extern "C" fn export_slug(arg0 : * mut u8, arg1 : usize,) -> * mut u8 { unsafe {
        $($path_to_types)*:: _export_slug_cabi::<$ty > (arg0, arg1) } } #[unsafe
        (export_name = "cabi_post_slug")] unsafe extern "C" fn _post_return_slug(arg0 : *
        mut u8,) { unsafe { $($path_to_types)*:: __post_return_slug::<$ty > (arg0) } }
        #[unsafe (export_name = "headed")] unsafe extern "C" fn export_headed(arg0 : *
        mut u8, arg1 : usize, arg2 : * mut u8, arg3 : usize,) -> * mut u8 { unsafe {
        $($path_to_types)*:: _export_headed_cabi::<$ty > (arg0, arg1, arg2, arg3) } }
        #[unsafe (export_name = "cabi_post_headed")] unsafe extern "C" fn
        _post_return_headed(arg0 : * mut u8,) { unsafe { $($path_to_types)*::
        __post_return_headed::<$ty > (arg0) } } };
    };
}
#[doc(hidden)]
pub(crate) use __export_world_text_tools_cabi;
#[cfg_attr(target_pointer_width = "64", repr(align(8)))]
#[cfg_attr(target_pointer_width = "32", repr(align(4)))]
struct _RetArea([::core::mem::MaybeUninit<u8>; 8 + 3 * ::core::mem::size_of::<*const u8>()]);
static mut _RET_AREA: _RetArea =
    _RetArea([::core::mem::MaybeUninit::uninit(); 8 + 3 * ::core::mem::size_of::<*const u8>()]);
mod _rt {
    #![allow(dead_code, unused_imports, clippy::all)]
    pub use alloc_crate::string::String;
    #[cfg(target_arch = "wasm32")]
    pub fn run_ctors_once() {
        wit_bindgen::rt::run_ctors_once();
    }
    pub use alloc_crate::vec::Vec;
    pub unsafe fn string_lift(bytes: Vec<u8>) -> String {
        if cfg!(debug_assertions) {
            String::from_utf8(bytes).unwrap()
        } else {
            unsafe { String::from_utf8_unchecked(bytes) }
        }
    }
    pub fn as_i32<T: AsI32>(t: T) -> i32 {
        t.as_i32()
    }
    pub trait AsI32 {
        fn as_i32(self) -> i32;
    }
    impl<'a, T: Copy + AsI32> AsI32 for &'a T {
        fn as_i32(self) -> i32 {
            (*self).as_i32()
        }
    }
    impl AsI32 for i32 {
        #[inline]
        fn as_i32(self) -> i32 {
            self as i32
        }
    }
    impl AsI32 for u32 {
        #[inline]
        fn as_i32(self) -> i32 {
            self as i32
        }
    }
    impl AsI32 for i16 {
        #[inline]
        fn as_i32(self) -> i32 {
            self as i32
        }
    }
    impl AsI32 for u16 {
        #[inline]
        fn as_i32(self) -> i32 {
            self as i32
        }
    }
    impl AsI32 for i8 {
        #[inline]
        fn as_i32(self) -> i32 {
            self as i32
        }
    }
    impl AsI32 for u8 {
        #[inline]
        fn as_i32(self) -> i32 {
            self as i32
        }
    }
    impl AsI32 for char {
        #[inline]
        fn as_i32(self) -> i32 {
            self as i32
        }
    }
    impl AsI32 for usize {
        #[inline]
        fn as_i32(self) -> i32 {
            self as i32
        }
    }
    pub unsafe fn cabi_dealloc(ptr: *mut u8, size: usize, align: usize) {
        if size == 0 {
            return;
        }
        unsafe {
            let layout = alloc::Layout::from_size_align_unchecked(size, align);
            alloc::dealloc(ptr, layout);
        }
    }
    extern crate alloc as alloc_crate;
    pub use alloc_crate::alloc;
}
#[allow(unused_macros)]
#[doc(hidden)]
macro_rules! __export_text_tools_impl {
    ($ty:ident) => {
        self::export!($ty with_types_in self);
    };
    ($ty:ident with_types_in $($path_to_types_root:tt)*) => {
        $($path_to_types_root)*:: __export_world_text_tools_cabi!($ty with_types_in
        $($path_to_types_root)*);
    };
}
#[doc(inline)]
pub(crate) use __export_text_tools_impl as export;
#[cfg(target_arch = "wasm32")]
#[unsafe(link_section = "component-type:wit-bindgen:0.63.0:example:text@0.1.0:text-tools:encoded world")]
#[doc(hidden)]
#[allow(clippy::octal_escapes)]
pub static __WIT_BINDGEN_COMPONENT_TYPE: [u8; 293] = *b"\
\0asm\x0d\0\x01\0\0\x19\x16wit-component-encoding\x04\0\x07\xa4\x01\x01A\x02\x01\
A\x0a\x01ks\x01r\x03\x05wordsy\x09sentencesy\x07longest\0\x03\0\x08measures\x03\0\
\x01\x01@\x01\x04texts\0\x02\x04\0\x07measure\x01\x03\x01j\x01s\x01s\x01@\x01\x04\
texts\0\x04\x04\0\x04slug\x01\x05\x01@\x02\x04heads\x04texts\0s\x04\0\x06headed\x01\
\x06\x04\0\x1dexample:text/text-tools@0.1.0\x04\0\x0b\x10\x01\0\x0atext-tools\x03\
\0\0\0G\x09producers\x01\x0cprocessed-by\x02\x0dwit-component\x070.262.0\x10wit-\
bindgen-rust\x060.63.0";
#[inline(never)]
#[doc(hidden)]
pub fn __link_custom_section_describing_imports() {
    wit_bindgen::rt::maybe_link_cabi_realloc();
}
